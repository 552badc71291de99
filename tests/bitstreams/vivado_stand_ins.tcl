# Vivado's commands, as far as bitstreams/vivado uses them: each call is a line of the file $::env(RECORD), a list
# of JSON. What finds something in a design returns its kind and name. write_bitstream copies $::env(BIT).
set ::record [open $::env(RECORD) w]

proc note {args} {
    foreach each $args {
        lappend texts "\"[string map {\\ \\\\ \" \\\" \n \\n} $each]\""
    }
    puts $::record "\[[join $texts ,]\]"
    flush $::record
}

foreach name {
    create_project add_files update_compile_order create_bd_design create_bd_cell set_property apply_bd_automation
    connect_bd_net connect_bd_intf_net assign_bd_address validate_bd_design save_bd_design launch_runs wait_on_run
    open_run report_timing_summary report_utilization
} {
    proc $name {args} [format {note %s {*}$args; return {}} $name]
}

foreach {name kind} {
    get_bd_cells cell get_bd_pins pin get_bd_intf_pins interface get_bd_addr_segs segment get_runs run
} {
    proc $name {what} [format {return [list %s $what]} $kind]
}

proc get_bd_addr_spaces {what {of {}}} {
    return [expr {$what eq "-of_objects" ? [list space_of [lindex $of 1]] : [list space $what]}]
}
proc get_files {what} { return $what }
proc current_fileset {} { return sources_1 }
proc get_timing_paths {args} { return path }
proc version {args} { return 2022.2 }
proc get_property {what object} {
    return [dict get [dict create PROGRESS $::env(PROGRESS) STATUS stopped SLACK $::env(SLACK)] $what]
}
proc make_wrapper {args} {
    note make_wrapper {*}$args
    return system_wrapper.v
}
proc write_bitstream {force file} {
    note write_bitstream $file
    file copy -force $::env(BIT) $file
}
