# The bitstream of an Ultra96, version 1 (for version 2: PART=xczu3eg-sbva484-1-i). NOT TRIED WITH VIVADO.
#
#   make bitstream-sources DESIGN=ultra96
#   vivado -mode batch -source bitstreams/vivado/ultra96.tcl
set here [file dirname [file normalize [info script]]]
source [file join $here common.tcl]
source [file join $here zynqmp.tcl]
build ultra96
