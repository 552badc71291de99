# The bitstream of a ZCU104. NOT TRIED WITH VIVADO.
#
#   make bitstream-sources DESIGN=zcu104
#   vivado -mode batch -source bitstreams/vivado/zcu104.tcl
set here [file dirname [file normalize [info script]]]
source [file join $here common.tcl]
source [file join $here zynqmp.tcl]
build zcu104
