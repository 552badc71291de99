# The processors of a Zynq-7000: what the FPGA sees of them. NOT TRIED WITH VIVADO.
#
# The settings of memory and pins are boot code's, not the bitstream's, so no board files are needed.
#
# The ports are not coherent with the caches, which edgepipe's driver maintains. HP0 and HP1 share a port of the
# memory controller, HP2 and HP3 another one (UG585): inputs come through HP0 and weights through HP2.
proc processing_system {reference_clock_mhz} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7 ps
    apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 \
        -config {make_external "FIXED_IO, DDR" Master "Disable" Slave "Disable"} [get_bd_cells ps]
    set_property -dict [list \
        CONFIG.PCW_USE_M_AXI_GP0 {1} \
        CONFIG.PCW_USE_S_AXI_HP0 {1} \
        CONFIG.PCW_S_AXI_HP0_DATA_WIDTH {64} \
        CONFIG.PCW_USE_S_AXI_HP1 {1} \
        CONFIG.PCW_S_AXI_HP1_DATA_WIDTH {64} \
        CONFIG.PCW_USE_S_AXI_HP2 {1} \
        CONFIG.PCW_S_AXI_HP2_DATA_WIDTH {64} \
        CONFIG.PCW_USE_S_AXI_HP3 {1} \
        CONFIG.PCW_S_AXI_HP3_DATA_WIDTH {64} \
        CONFIG.PCW_USE_FABRIC_INTERRUPT {1} \
        CONFIG.PCW_IRQ_F2P_INTR {1} \
        CONFIG.PCW_EN_CLK0_PORT {1} \
        CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $reference_clock_mhz \
    ] [get_bd_cells ps]
    return [dict create \
        clock FCLK_CLK0 \
        interrupt IRQ_F2P \
        control M_AXI_GP0 \
        control_clock M_AXI_GP0_ACLK \
        memory {
            m_axi_load        S_AXI_HP0 S_AXI_HP0_ACLK S_AXI_HP0/HP0_DDR_LOWOCM
            m_axi_compute     S_AXI_HP1 S_AXI_HP1_ACLK S_AXI_HP1/HP1_DDR_LOWOCM
            m_axi_weight      S_AXI_HP2 S_AXI_HP2_ACLK S_AXI_HP2/HP2_DDR_LOWOCM
            m_axi_fetch_store S_AXI_HP3 S_AXI_HP3_ACLK S_AXI_HP3/HP3_DDR_LOWOCM
        }]
}
