# The processors of a Zynq UltraScale+: what the FPGA sees of them. NOT TRIED WITH VIVADO.
#
# Pins, memory and PLLs of the processors are boot code's, not the bitstream's, so no board files are needed.
# The widths of the ports are those after a reset, since boot code that knows another design may have been
# left at that: M_AXI_HPM0_FPD 128 bits, S_AXI_HP* 128 bits (AFI_FS and AFIFM in UG1087).
#
# The ports are not coherent with the caches, which edgepipe's driver maintains. On their way to the memory, HP0
# shares with the DisplayPort, HP1 with HP2, HP3 with the DMA of the full-power domain (UG1085): inputs come through HP1 and weights through HP3.
proc processing_system {reference_clock_mhz} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e ps
    set_property -dict [list \
        CONFIG.PSU__USE__M_AXI_GP0 {1} \
        CONFIG.PSU__MAXIGP0__DATA_WIDTH {128} \
        CONFIG.PSU__USE__M_AXI_GP1 {0} \
        CONFIG.PSU__USE__M_AXI_GP2 {0} \
        CONFIG.PSU__USE__S_AXI_GP2 {1} \
        CONFIG.PSU__SAXIGP2__DATA_WIDTH {128} \
        CONFIG.PSU__USE__S_AXI_GP3 {1} \
        CONFIG.PSU__SAXIGP3__DATA_WIDTH {128} \
        CONFIG.PSU__USE__S_AXI_GP4 {1} \
        CONFIG.PSU__SAXIGP4__DATA_WIDTH {128} \
        CONFIG.PSU__USE__S_AXI_GP5 {1} \
        CONFIG.PSU__SAXIGP5__DATA_WIDTH {128} \
        CONFIG.PSU__USE__IRQ0 {1} \
        CONFIG.PSU__FPGA_PL0_ENABLE {1} \
        CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $reference_clock_mhz \
    ] [get_bd_cells ps]
    return [dict create \
        clock pl_clk0 \
        interrupt pl_ps_irq0 \
        control M_AXI_HPM0_FPD \
        control_clock maxihpm0_fpd_aclk \
        memory {
            m_axi_fetch_store S_AXI_HP0_FPD saxihp0_fpd_aclk SAXIGP2/HP0_DDR_LOW
            m_axi_load        S_AXI_HP1_FPD saxihp1_fpd_aclk SAXIGP3/HP1_DDR_LOW
            m_axi_compute     S_AXI_HP2_FPD saxihp2_fpd_aclk SAXIGP4/HP2_DDR_LOW
            m_axi_weight      S_AXI_HP3_FPD saxihp3_fpd_aclk SAXIGP5/HP3_DDR_LOW
        }]
}
