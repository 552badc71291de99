# The bitstream of a PYNQ-Z2. NOT TRIED WITH VIVADO.
#
#   make bitstream-sources DESIGN=pynq-z2
#   vivado -mode batch -source bitstreams/vivado/pynq-z2.tcl
set here [file dirname [file normalize [info script]]]
source [file join $here common.tcl]
source [file join $here zynq7.tcl]
build pynq-z2
