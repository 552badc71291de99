# The bitstream of a KV260. NOT TRIED WITH VIVADO.
#
#   make bitstream-sources DESIGN=kv260
#   vivado -mode batch -source bitstreams/vivado/kv260.tcl
set here [file dirname [file normalize [info script]]]
source [file join $here common.tcl]
source [file join $here zynqmp.tcl]
build kv260
