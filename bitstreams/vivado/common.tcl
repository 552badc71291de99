# What the scripts of all boards share: project, block design, bitstream, and what goes beside it.
#
# NONE OF THIS WAS TRIED WITH VIVADO. Names of commands, cells and settings are those of Vivado's documents
# and of public designs; tests run these scripts with stand-ins for Vivado's commands.
#
# A board's script sources this file, then zynqmp.tcl or zynq7.tcl, and calls `build DESIGN`.

proc fail {what remedy} {
    puts stderr "error: $what"
    puts stderr "hint: $remedy"
    exit 1
}

# The folder that `make bitstream-sources` has written: the script's argument, or the design's folder in build/.
proc sources_folder {design} {
    global argv
    if {[info exists argv] && [llength $argv] > 0} {
        return [file normalize [lindex $argv 0]]
    }
    set repository [file dirname [file dirname [file dirname [file normalize [info script]]]]]
    return [file join $repository build bitstreams $design]
}

proc build {design} {
    set folder [sources_folder $design]
    if {![file exists [file join $folder settings.tcl]]} {
        fail "$folder: no settings.tcl, expected the design's sources" \
            "write them with `make bitstream-sources DESIGN=$design`, or give their folder: -tclargs FOLDER"
    }
    source [file join $folder settings.tcl]
    if {$design_name ne $design} {
        fail "$folder: holds the sources of $design_name, expected $design" \
            "write them with `make bitstream-sources DESIGN=$design`"
    }
    set wrapper [file join [file dirname [file dirname [file normalize [info script]]]] verilog edgepipe_vta_board.v]

    create_project edgepipe [file join $folder vivado] -part $part -force
    add_files -norecurse [list [file join $folder edgepipe_vta.v] $wrapper]
    update_compile_order -fileset sources_1
    block_design $bus_bytes $clock_mhz $reference_clock_mhz $registers_base $registers_bytes
    set top [make_wrapper -files [get_files system.bd] -top]
    add_files -norecurse $top
    set_property top system_wrapper [current_fileset]
    update_compile_order -fileset sources_1

    launch_runs impl_1 -jobs 4
    wait_on_run impl_1
    if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
        fail "Vivado did not implement $design: [get_property STATUS [get_runs impl_1]]" \
            "read the logs in [file join $folder vivado edgepipe.runs]"
    }
    open_run impl_1
    report_timing_summary -file [file join $folder timing.rpt]
    report_utilization -hierarchical -file [file join $folder utilization.rpt]
    set slack [get_property SLACK [get_timing_paths -max_paths 1 -setup]]
    puts "$design: $clock_mhz MHz, worst slack $slack ns; see timing.rpt and utilization.rpt in $folder"
    if {$slack < 0} {
        fail "$design misses $clock_mhz MHz by [expr {-$slack}] ns, so there is no bitstream" \
            "choose a lower clock: make bitstream-sources DESIGN=$design CLOCK_MHZ=..."
    }
    set bit [file join $folder edgepipe-$design.bit]
    write_bitstream -force $bit
    write_entry $folder $bit "Vivado [version -short], worst slack $slack ns"
}

# The processors, the accelerator and all between them.
proc block_design {bus_bytes clock_mhz reference_clock_mhz registers_base registers_bytes} {
    create_bd_design system
    set ps [processing_system $reference_clock_mhz]
    create_bd_cell -type module -reference edgepipe_vta_board vta
    set_property CONFIG.BUS_BYTES $bus_bytes [get_bd_cells vta]

    # The accelerator's clock is made here, because Linux does not set PL clocks when it programs an FPGA.
    create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz clock
    set_property -dict [list \
        CONFIG.PRIM_SOURCE {No_buffer} \
        CONFIG.CLKOUT1_REQUESTED_OUT_FREQ $clock_mhz \
        CONFIG.USE_RESET {false} \
        CONFIG.USE_LOCKED {true} \
    ] [get_bd_cells clock]
    connect_bd_net [get_bd_pins ps/[dict get $ps clock]] [get_bd_pins clock/clk_in1]
    connect_bd_net [get_bd_pins clock/locked] [get_bd_pins vta/clock_locked]
    connect_bd_net [get_bd_pins clock/clk_out1] [get_bd_pins vta/aclk]
    connect_bd_net [get_bd_pins vta/irq] [get_bd_pins ps/[dict get $ps interrupt]]

    join_buses registers ps [dict get $ps control] vta s_axi_control
    connect_bd_net [get_bd_pins clock/clk_out1] [get_bd_pins ps/[dict get $ps control_clock]]
    assign_bd_address -offset $registers_base -range $registers_bytes \
        -target_address_space [get_bd_addr_spaces ps/Data] [get_bd_addr_segs vta/s_axi_control/*]

    foreach {master port port_clock segment} [dict get $ps memory] {
        join_buses memory_$master vta $master ps $port
        connect_bd_net [get_bd_pins clock/clk_out1] [get_bd_pins ps/$port_clock]
        assign_bd_address -target_address_space \
            [get_bd_addr_spaces -of_objects [get_bd_intf_pins vta/$master]] [get_bd_addr_segs ps/$segment]
    }
    validate_bd_design
    save_bd_design
}

# Connect a master to a slave through a SmartConnect, which converts width and protocol.
proc join_buses {name master_cell master slave_cell slave} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $name
    set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {1}] [get_bd_cells $name]
    connect_bd_net [get_bd_pins clock/clk_out1] [get_bd_pins $name/aclk]
    connect_bd_net [get_bd_pins vta/aresetn] [get_bd_pins $name/aresetn]
    connect_bd_intf_net [get_bd_intf_pins $master_cell/$master] [get_bd_intf_pins $name/S00_AXI]
    connect_bd_intf_net [get_bd_intf_pins $name/M00_AXI] [get_bd_intf_pins $slave_cell/$slave]
}

# Write what `edgepipe bitstream` reads beside the bitstream: FILE.bit.json.
proc write_entry {folder bit note} {
    if {[catch {lindex [exec sha256sum $bit] 0} digest]} {
        fail "sha256sum is missing ($digest), so $bit.json was not written" \
            "put the file's SHA-256 for @SHA256@ and a note for @NOTE@ in [file join $folder entry.json.in], \
and save it as $bit.json"
    }
    set source [open [file join $folder entry.json.in]]
    set text [string map [list @SHA256@ $digest @NOTE@ $note] [read $source]]
    close $source
    set entry [open $bit.json w]
    puts -nonewline $entry $text
    close $entry
    puts "$bit and $bit.json: next, edgepipe bitstream install (docs/guides/own-bitstream.md)"
}
