// A PYNQ-Z2's whole FPGA without Vivado: the processors (PS7), the accelerator, and their connections.
//
// Registers are at 0x43c00000, behind M_AXI_GP0. Inputs are read through S_AXI_HP0, weights through HP2; compute reads
// through HP1, fetch reads and store writes through HP3. HP0 and HP1 share a port of the memory controller, HP2 and
// HP3 another one. These ports are not coherent with the caches, which the driver maintains. The interrupt is
// IRQF2P[0], the 29th of the shared ones (SPI). Nothing here was tried with openXC7 or on a board.
`default_nettype none

module edgepipe_pynq_z2 #(
    parameter integer DIVIDE = 2 // of the processors' FCLK0, 100 MHz in PYNQ's images: 1 or 2
) ();
    wire [3:0] fabric_clocks;
    wire clock;
    generate
        if (DIVIDE == 2) begin : halved
            reg half;
            initial half = 1'b0;
            always @(posedge fabric_clocks[0]) half <= !half;
            BUFG buffer (.I(half), .O(clock));
        end else begin : whole
            BUFG buffer (.I(fabric_clocks[0]), .O(clock));
        end
    endgenerate

    wire reset_n, irq;
    wire gp0_arvalid;
    wire gp0_awvalid;
    wire gp0_bready;
    wire gp0_rready;
    wire gp0_wlast;
    wire gp0_wvalid;
    wire [11:0] gp0_arid;
    wire [11:0] gp0_awid;
    wire [31:0] gp0_araddr;
    wire [31:0] gp0_awaddr;
    wire [31:0] gp0_wdata;
    wire [3:0] gp0_arlen;
    wire [3:0] gp0_wstrb;
    wire gp0_arready;
    wire gp0_awready;
    wire gp0_bvalid;
    wire gp0_rlast;
    wire gp0_rvalid;
    wire gp0_wready;
    wire [11:0] gp0_bid;
    wire [11:0] gp0_rid;
    wire [1:0] gp0_bresp;
    wire [1:0] gp0_rresp;
    wire [31:0] gp0_rdata;
    wire load_arvalid;
    wire [31:0] load_araddr;
    wire [7:0] load_arlen;
    wire [2:0] load_arsize;
    wire [1:0] load_arburst;
    wire [3:0] load_arcache;
    wire [2:0] load_arprot;
    wire load_rready;
    wire load_arready;
    wire [63:0] load_rdata;
    wire [1:0] load_rresp;
    wire load_rlast;
    wire load_rvalid;
    wire weight_arvalid;
    wire [31:0] weight_araddr;
    wire [7:0] weight_arlen;
    wire [2:0] weight_arsize;
    wire [1:0] weight_arburst;
    wire [3:0] weight_arcache;
    wire [2:0] weight_arprot;
    wire weight_rready;
    wire weight_arready;
    wire [63:0] weight_rdata;
    wire [1:0] weight_rresp;
    wire weight_rlast;
    wire weight_rvalid;
    wire compute_arvalid;
    wire [31:0] compute_araddr;
    wire [7:0] compute_arlen;
    wire [2:0] compute_arsize;
    wire [1:0] compute_arburst;
    wire [3:0] compute_arcache;
    wire [2:0] compute_arprot;
    wire compute_rready;
    wire compute_arready;
    wire [63:0] compute_rdata;
    wire [1:0] compute_rresp;
    wire compute_rlast;
    wire compute_rvalid;
    wire fetch_store_arvalid;
    wire [31:0] fetch_store_araddr;
    wire [7:0] fetch_store_arlen;
    wire [2:0] fetch_store_arsize;
    wire [1:0] fetch_store_arburst;
    wire [3:0] fetch_store_arcache;
    wire [2:0] fetch_store_arprot;
    wire fetch_store_rready;
    wire fetch_store_arready;
    wire [63:0] fetch_store_rdata;
    wire [1:0] fetch_store_rresp;
    wire fetch_store_rlast;
    wire fetch_store_rvalid;
    wire fetch_store_awvalid;
    wire [31:0] fetch_store_awaddr;
    wire [7:0] fetch_store_awlen;
    wire [2:0] fetch_store_awsize;
    wire [1:0] fetch_store_awburst;
    wire [3:0] fetch_store_awcache;
    wire [2:0] fetch_store_awprot;
    wire [63:0] fetch_store_wdata;
    wire [7:0] fetch_store_wstrb;
    wire fetch_store_wlast;
    wire fetch_store_wvalid;
    wire fetch_store_bready;
    wire fetch_store_awready;
    wire fetch_store_wready;
    wire [1:0] fetch_store_bresp;
    wire fetch_store_bvalid;
    wire [13:0] lite_awaddr;
    wire lite_awvalid;
    wire lite_awready;
    wire [31:0] lite_wdata;
    wire [3:0] lite_wstrb;
    wire lite_wvalid;
    wire lite_wready;
    wire [1:0] lite_bresp;
    wire lite_bvalid;
    wire lite_bready;
    wire [13:0] lite_araddr;
    wire lite_arvalid;
    wire lite_arready;
    wire [31:0] lite_rdata;
    wire [1:0] lite_rresp;
    wire lite_rvalid;
    wire lite_rready;

    // Bursts have at most 16 beats of at most 8 bytes, so AXI3 has the bits that they need.
    wire unused = &{
        1'b0, fabric_clocks[3:1], gp0_araddr[31:14], gp0_awaddr[31:14], load_arlen[7:4], load_arsize[2],
        weight_arlen[7:4], weight_arsize[2], compute_arlen[7:4], compute_arsize[2],
        fetch_store_arlen[7:4], fetch_store_arsize[2], fetch_store_awlen[7:4], fetch_store_awsize[2]
    };

    axi3_registers registers (
        .aclk(clock),
        .aresetn(reset_n),
        .awid(gp0_awid),
        .awaddr(gp0_awaddr[13:0]),
        .awvalid(gp0_awvalid),
        .awready(gp0_awready),
        .wdata(gp0_wdata),
        .wstrb(gp0_wstrb),
        .wlast(gp0_wlast),
        .wvalid(gp0_wvalid),
        .wready(gp0_wready),
        .bid(gp0_bid),
        .bresp(gp0_bresp),
        .bvalid(gp0_bvalid),
        .bready(gp0_bready),
        .arid(gp0_arid),
        .araddr(gp0_araddr[13:0]),
        .arlen(gp0_arlen),
        .arvalid(gp0_arvalid),
        .arready(gp0_arready),
        .rid(gp0_rid),
        .rdata(gp0_rdata),
        .rresp(gp0_rresp),
        .rlast(gp0_rlast),
        .rvalid(gp0_rvalid),
        .rready(gp0_rready),
        .lite_awaddr(lite_awaddr),
        .lite_awvalid(lite_awvalid),
        .lite_awready(lite_awready),
        .lite_wdata(lite_wdata),
        .lite_wstrb(lite_wstrb),
        .lite_wvalid(lite_wvalid),
        .lite_wready(lite_wready),
        .lite_bresp(lite_bresp),
        .lite_bvalid(lite_bvalid),
        .lite_bready(lite_bready),
        .lite_araddr(lite_araddr),
        .lite_arvalid(lite_arvalid),
        .lite_arready(lite_arready),
        .lite_rdata(lite_rdata),
        .lite_rresp(lite_rresp),
        .lite_rvalid(lite_rvalid),
        .lite_rready(lite_rready)
    );

    edgepipe_vta_board #(.BUS_BYTES(8)) vta (
        .aclk(clock),
        .clock_locked(1'b1),
        .aresetn(reset_n),
        .irq(irq),
        .s_axi_control_awprot(3'b0),
        .s_axi_control_arprot(3'b0),
        .s_axi_control_awaddr(lite_awaddr),
        .s_axi_control_awvalid(lite_awvalid),
        .s_axi_control_awready(lite_awready),
        .s_axi_control_wdata(lite_wdata),
        .s_axi_control_wstrb(lite_wstrb),
        .s_axi_control_wvalid(lite_wvalid),
        .s_axi_control_wready(lite_wready),
        .s_axi_control_bresp(lite_bresp),
        .s_axi_control_bvalid(lite_bvalid),
        .s_axi_control_bready(lite_bready),
        .s_axi_control_araddr(lite_araddr),
        .s_axi_control_arvalid(lite_arvalid),
        .s_axi_control_arready(lite_arready),
        .s_axi_control_rdata(lite_rdata),
        .s_axi_control_rresp(lite_rresp),
        .s_axi_control_rvalid(lite_rvalid),
        .s_axi_control_rready(lite_rready),
        .m_axi_load_arvalid(load_arvalid),
        .m_axi_load_araddr(load_araddr),
        .m_axi_load_arlen(load_arlen),
        .m_axi_load_arsize(load_arsize),
        .m_axi_load_arburst(load_arburst),
        .m_axi_load_arcache(load_arcache),
        .m_axi_load_arprot(load_arprot),
        .m_axi_load_rready(load_rready),
        .m_axi_load_arready(load_arready),
        .m_axi_load_rdata(load_rdata),
        .m_axi_load_rresp(load_rresp),
        .m_axi_load_rlast(load_rlast),
        .m_axi_load_rvalid(load_rvalid),
        .m_axi_weight_arvalid(weight_arvalid),
        .m_axi_weight_araddr(weight_araddr),
        .m_axi_weight_arlen(weight_arlen),
        .m_axi_weight_arsize(weight_arsize),
        .m_axi_weight_arburst(weight_arburst),
        .m_axi_weight_arcache(weight_arcache),
        .m_axi_weight_arprot(weight_arprot),
        .m_axi_weight_rready(weight_rready),
        .m_axi_weight_arready(weight_arready),
        .m_axi_weight_rdata(weight_rdata),
        .m_axi_weight_rresp(weight_rresp),
        .m_axi_weight_rlast(weight_rlast),
        .m_axi_weight_rvalid(weight_rvalid),
        .m_axi_compute_arvalid(compute_arvalid),
        .m_axi_compute_araddr(compute_araddr),
        .m_axi_compute_arlen(compute_arlen),
        .m_axi_compute_arsize(compute_arsize),
        .m_axi_compute_arburst(compute_arburst),
        .m_axi_compute_arcache(compute_arcache),
        .m_axi_compute_arprot(compute_arprot),
        .m_axi_compute_rready(compute_rready),
        .m_axi_compute_arready(compute_arready),
        .m_axi_compute_rdata(compute_rdata),
        .m_axi_compute_rresp(compute_rresp),
        .m_axi_compute_rlast(compute_rlast),
        .m_axi_compute_rvalid(compute_rvalid),
        .m_axi_fetch_store_arvalid(fetch_store_arvalid),
        .m_axi_fetch_store_araddr(fetch_store_araddr),
        .m_axi_fetch_store_arlen(fetch_store_arlen),
        .m_axi_fetch_store_arsize(fetch_store_arsize),
        .m_axi_fetch_store_arburst(fetch_store_arburst),
        .m_axi_fetch_store_arcache(fetch_store_arcache),
        .m_axi_fetch_store_arprot(fetch_store_arprot),
        .m_axi_fetch_store_rready(fetch_store_rready),
        .m_axi_fetch_store_arready(fetch_store_arready),
        .m_axi_fetch_store_rdata(fetch_store_rdata),
        .m_axi_fetch_store_rresp(fetch_store_rresp),
        .m_axi_fetch_store_rlast(fetch_store_rlast),
        .m_axi_fetch_store_rvalid(fetch_store_rvalid),
        .m_axi_fetch_store_awvalid(fetch_store_awvalid),
        .m_axi_fetch_store_awaddr(fetch_store_awaddr),
        .m_axi_fetch_store_awlen(fetch_store_awlen),
        .m_axi_fetch_store_awsize(fetch_store_awsize),
        .m_axi_fetch_store_awburst(fetch_store_awburst),
        .m_axi_fetch_store_awcache(fetch_store_awcache),
        .m_axi_fetch_store_awprot(fetch_store_awprot),
        .m_axi_fetch_store_wdata(fetch_store_wdata),
        .m_axi_fetch_store_wstrb(fetch_store_wstrb),
        .m_axi_fetch_store_wlast(fetch_store_wlast),
        .m_axi_fetch_store_wvalid(fetch_store_wvalid),
        .m_axi_fetch_store_bready(fetch_store_bready),
        .m_axi_fetch_store_awready(fetch_store_awready),
        .m_axi_fetch_store_wready(fetch_store_wready),
        .m_axi_fetch_store_bresp(fetch_store_bresp),
        .m_axi_fetch_store_bvalid(fetch_store_bvalid)
    );

    PS7 processors (
        .FCLKCLK(fabric_clocks),
        .MAXIGP0ARVALID(gp0_arvalid),
        .MAXIGP0AWVALID(gp0_awvalid),
        .MAXIGP0BREADY(gp0_bready),
        .MAXIGP0RREADY(gp0_rready),
        .MAXIGP0WLAST(gp0_wlast),
        .MAXIGP0WVALID(gp0_wvalid),
        .MAXIGP0ARID(gp0_arid),
        .MAXIGP0AWID(gp0_awid),
        .MAXIGP0ARADDR(gp0_araddr),
        .MAXIGP0AWADDR(gp0_awaddr),
        .MAXIGP0WDATA(gp0_wdata),
        .MAXIGP0ARLEN(gp0_arlen),
        .MAXIGP0WSTRB(gp0_wstrb),
        .SAXIHP0ARREADY(load_arready),
        .SAXIHP0RDATA(load_rdata),
        .SAXIHP0RRESP(load_rresp),
        .SAXIHP0RLAST(load_rlast),
        .SAXIHP0RVALID(load_rvalid),
        .SAXIHP1ARREADY(compute_arready),
        .SAXIHP1RDATA(compute_rdata),
        .SAXIHP1RRESP(compute_rresp),
        .SAXIHP1RLAST(compute_rlast),
        .SAXIHP1RVALID(compute_rvalid),
        .SAXIHP2ARREADY(weight_arready),
        .SAXIHP2RDATA(weight_rdata),
        .SAXIHP2RRESP(weight_rresp),
        .SAXIHP2RLAST(weight_rlast),
        .SAXIHP2RVALID(weight_rvalid),
        .SAXIHP3ARREADY(fetch_store_arready),
        .SAXIHP3RDATA(fetch_store_rdata),
        .SAXIHP3RRESP(fetch_store_rresp),
        .SAXIHP3RLAST(fetch_store_rlast),
        .SAXIHP3RVALID(fetch_store_rvalid),
        .SAXIHP3AWREADY(fetch_store_awready),
        .SAXIHP3WREADY(fetch_store_wready),
        .SAXIHP3BRESP(fetch_store_bresp),
        .SAXIHP3BVALID(fetch_store_bvalid),
        .MAXIGP0ACLK(clock),
        .MAXIGP0ARREADY(gp0_arready),
        .MAXIGP0AWREADY(gp0_awready),
        .MAXIGP0BVALID(gp0_bvalid),
        .MAXIGP0RLAST(gp0_rlast),
        .MAXIGP0RVALID(gp0_rvalid),
        .MAXIGP0WREADY(gp0_wready),
        .MAXIGP0BID(gp0_bid),
        .MAXIGP0RID(gp0_rid),
        .MAXIGP0BRESP(gp0_bresp),
        .MAXIGP0RRESP(gp0_rresp),
        .MAXIGP0RDATA(gp0_rdata),
        .SAXIHP0ACLK(clock),
        .SAXIHP0RDISSUECAP1EN(1'b0),
        .SAXIHP0WRISSUECAP1EN(1'b0),
        .SAXIHP0ARVALID(load_arvalid),
        .SAXIHP0ARADDR(load_araddr),
        .SAXIHP0ARLEN(load_arlen[3:0]),
        .SAXIHP0ARSIZE(load_arsize[1:0]),
        .SAXIHP0ARBURST(load_arburst),
        .SAXIHP0ARCACHE(load_arcache),
        .SAXIHP0ARPROT(load_arprot),
        .SAXIHP0RREADY(load_rready),
        .SAXIHP1ACLK(clock),
        .SAXIHP1RDISSUECAP1EN(1'b0),
        .SAXIHP1WRISSUECAP1EN(1'b0),
        .SAXIHP1ARVALID(compute_arvalid),
        .SAXIHP1ARADDR(compute_araddr),
        .SAXIHP1ARLEN(compute_arlen[3:0]),
        .SAXIHP1ARSIZE(compute_arsize[1:0]),
        .SAXIHP1ARBURST(compute_arburst),
        .SAXIHP1ARCACHE(compute_arcache),
        .SAXIHP1ARPROT(compute_arprot),
        .SAXIHP1RREADY(compute_rready),
        .SAXIHP2ACLK(clock),
        .SAXIHP2RDISSUECAP1EN(1'b0),
        .SAXIHP2WRISSUECAP1EN(1'b0),
        .SAXIHP2ARVALID(weight_arvalid),
        .SAXIHP2ARADDR(weight_araddr),
        .SAXIHP2ARLEN(weight_arlen[3:0]),
        .SAXIHP2ARSIZE(weight_arsize[1:0]),
        .SAXIHP2ARBURST(weight_arburst),
        .SAXIHP2ARCACHE(weight_arcache),
        .SAXIHP2ARPROT(weight_arprot),
        .SAXIHP2RREADY(weight_rready),
        .SAXIHP3ACLK(clock),
        .SAXIHP3RDISSUECAP1EN(1'b0),
        .SAXIHP3WRISSUECAP1EN(1'b0),
        .SAXIHP3ARVALID(fetch_store_arvalid),
        .SAXIHP3ARADDR(fetch_store_araddr),
        .SAXIHP3ARLEN(fetch_store_arlen[3:0]),
        .SAXIHP3ARSIZE(fetch_store_arsize[1:0]),
        .SAXIHP3ARBURST(fetch_store_arburst),
        .SAXIHP3ARCACHE(fetch_store_arcache),
        .SAXIHP3ARPROT(fetch_store_arprot),
        .SAXIHP3RREADY(fetch_store_rready),
        .SAXIHP3AWVALID(fetch_store_awvalid),
        .SAXIHP3AWADDR(fetch_store_awaddr),
        .SAXIHP3AWLEN(fetch_store_awlen[3:0]),
        .SAXIHP3AWSIZE(fetch_store_awsize[1:0]),
        .SAXIHP3AWBURST(fetch_store_awburst),
        .SAXIHP3AWCACHE(fetch_store_awcache),
        .SAXIHP3AWPROT(fetch_store_awprot),
        .SAXIHP3WDATA(fetch_store_wdata),
        .SAXIHP3WSTRB(fetch_store_wstrb),
        .SAXIHP3WLAST(fetch_store_wlast),
        .SAXIHP3WVALID(fetch_store_wvalid),
        .SAXIHP3BREADY(fetch_store_bready),
        .IRQF2P({19'b0, irq}),
        // Everything else is 0, as Vivado leaves it. The pins of memory and MIO are not the FPGA's.
        .DMA0ACLK(1'b0), .DMA0DAREADY(1'b0), .DMA0DRLAST(1'b0), .DMA0DRVALID(1'b0), .DMA1ACLK(1'b0),
        .DMA1DAREADY(1'b0), .DMA1DRLAST(1'b0), .DMA1DRVALID(1'b0), .DMA2ACLK(1'b0), .DMA2DAREADY(1'b0),
        .DMA2DRLAST(1'b0), .DMA2DRVALID(1'b0), .DMA3ACLK(1'b0), .DMA3DAREADY(1'b0), .DMA3DRLAST(1'b0),
        .DMA3DRVALID(1'b0), .EMIOCAN0PHYRX(1'b0), .EMIOCAN1PHYRX(1'b0), .EMIOENET0EXTINTIN(1'b0),
        .EMIOENET0GMIICOL(1'b0), .EMIOENET0GMIICRS(1'b0), .EMIOENET0GMIIRXCLK(1'b0), .EMIOENET0GMIIRXDV(1'b0),
        .EMIOENET0GMIIRXER(1'b0), .EMIOENET0GMIITXCLK(1'b0), .EMIOENET0MDIOI(1'b0), .EMIOENET1EXTINTIN(1'b0),
        .EMIOENET1GMIICOL(1'b0), .EMIOENET1GMIICRS(1'b0), .EMIOENET1GMIIRXCLK(1'b0), .EMIOENET1GMIIRXDV(1'b0),
        .EMIOENET1GMIIRXER(1'b0), .EMIOENET1GMIITXCLK(1'b0), .EMIOENET1MDIOI(1'b0), .EMIOI2C0SCLI(1'b0),
        .EMIOI2C0SDAI(1'b0), .EMIOI2C1SCLI(1'b0), .EMIOI2C1SDAI(1'b0), .EMIOPJTAGTCK(1'b0), .EMIOPJTAGTDI(1'b0),
        .EMIOPJTAGTMS(1'b0), .EMIOSDIO0CDN(1'b0), .EMIOSDIO0CLKFB(1'b0), .EMIOSDIO0CMDI(1'b0), .EMIOSDIO0WP(1'b0),
        .EMIOSDIO1CDN(1'b0), .EMIOSDIO1CLKFB(1'b0), .EMIOSDIO1CMDI(1'b0), .EMIOSDIO1WP(1'b0), .EMIOSPI0MI(1'b0),
        .EMIOSPI0SCLKI(1'b0), .EMIOSPI0SI(1'b0), .EMIOSPI0SSIN(1'b0), .EMIOSPI1MI(1'b0), .EMIOSPI1SCLKI(1'b0),
        .EMIOSPI1SI(1'b0), .EMIOSPI1SSIN(1'b0), .EMIOSRAMINTIN(1'b0), .EMIOTRACECLK(1'b0), .EMIOUART0CTSN(1'b0),
        .EMIOUART0DCDN(1'b0), .EMIOUART0DSRN(1'b0), .EMIOUART0RIN(1'b0), .EMIOUART0RX(1'b0), .EMIOUART1CTSN(1'b0),
        .EMIOUART1DCDN(1'b0), .EMIOUART1DSRN(1'b0), .EMIOUART1RIN(1'b0), .EMIOUART1RX(1'b0),
        .EMIOUSB0VBUSPWRFAULT(1'b0), .EMIOUSB1VBUSPWRFAULT(1'b0), .EMIOWDTCLKI(1'b0), .EVENTEVENTI(1'b0),
        .FPGAIDLEN(1'b0), .FTMDTRACEINCLOCK(1'b0), .FTMDTRACEINVALID(1'b0), .MAXIGP1ACLK(1'b0), .MAXIGP1ARREADY(1'b0),
        .MAXIGP1AWREADY(1'b0), .MAXIGP1BVALID(1'b0), .MAXIGP1RLAST(1'b0), .MAXIGP1RVALID(1'b0), .MAXIGP1WREADY(1'b0),
        .SAXIACPACLK(1'b0), .SAXIACPARVALID(1'b0), .SAXIACPAWVALID(1'b0), .SAXIACPBREADY(1'b0), .SAXIACPRREADY(1'b0),
        .SAXIACPWLAST(1'b0), .SAXIACPWVALID(1'b0), .SAXIGP0ACLK(1'b0), .SAXIGP0ARVALID(1'b0), .SAXIGP0AWVALID(1'b0),
        .SAXIGP0BREADY(1'b0), .SAXIGP0RREADY(1'b0), .SAXIGP0WLAST(1'b0), .SAXIGP0WVALID(1'b0), .SAXIGP1ACLK(1'b0),
        .SAXIGP1ARVALID(1'b0), .SAXIGP1AWVALID(1'b0), .SAXIGP1BREADY(1'b0), .SAXIGP1RREADY(1'b0), .SAXIGP1WLAST(1'b0),
        .SAXIGP1WVALID(1'b0), .SAXIHP0AWVALID(1'b0), .SAXIHP0BREADY(1'b0), .SAXIHP0WLAST(1'b0), .SAXIHP0WVALID(1'b0),
        .SAXIHP1AWVALID(1'b0), .SAXIHP1BREADY(1'b0),
        .SAXIHP1WLAST(1'b0),
        .SAXIHP1WVALID(1'b0), .SAXIHP2AWVALID(1'b0), .SAXIHP2BREADY(1'b0), .SAXIHP2WLAST(1'b0), .SAXIHP2WVALID(1'b0),
        .MAXIGP1BID(12'b0), .MAXIGP1RID(12'b0), .DMA0DRTYPE(2'b0), .DMA1DRTYPE(2'b0), .DMA2DRTYPE(2'b0),
        .DMA3DRTYPE(2'b0), .MAXIGP1BRESP(2'b0), .MAXIGP1RRESP(2'b0), .SAXIACPARBURST(2'b0), .SAXIACPARLOCK(2'b0),
        .SAXIACPARSIZE(2'b0), .SAXIACPAWBURST(2'b0), .SAXIACPAWLOCK(2'b0), .SAXIACPAWSIZE(2'b0),
        .SAXIGP0ARBURST(2'b0), .SAXIGP0ARLOCK(2'b0), .SAXIGP0ARSIZE(2'b0), .SAXIGP0AWBURST(2'b0),
        .SAXIGP0AWLOCK(2'b0), .SAXIGP0AWSIZE(2'b0), .SAXIGP1ARBURST(2'b0), .SAXIGP1ARLOCK(2'b0), .SAXIGP1ARSIZE(2'b0),
        .SAXIGP1AWBURST(2'b0), .SAXIGP1AWLOCK(2'b0), .SAXIGP1AWSIZE(2'b0), .SAXIHP0ARLOCK(2'b0),
        .SAXIHP0AWBURST(2'b0), .SAXIHP0AWLOCK(2'b0), .SAXIHP0AWSIZE(2'b0),
        .SAXIHP1ARLOCK(2'b0), .SAXIHP1AWBURST(2'b0), .SAXIHP1AWLOCK(2'b0), .SAXIHP1AWSIZE(2'b0),
        .SAXIHP2ARLOCK(2'b0), .SAXIHP2AWBURST(2'b0), .SAXIHP2AWLOCK(2'b0), .SAXIHP2AWSIZE(2'b0), .SAXIHP3ARLOCK(2'b0),
        .SAXIHP3AWLOCK(2'b0), .EMIOTTC0CLKI(3'b0), .EMIOTTC1CLKI(3'b0), .SAXIACPARID(3'b0), .SAXIACPARPROT(3'b0),
        .SAXIACPAWID(3'b0), .SAXIACPAWPROT(3'b0), .SAXIACPWID(3'b0), .SAXIGP0ARPROT(3'b0), .SAXIGP0AWPROT(3'b0),
        .SAXIGP1ARPROT(3'b0), .SAXIGP1AWPROT(3'b0), .SAXIHP0AWPROT(3'b0), .SAXIHP1AWPROT(3'b0),
        .SAXIHP2AWPROT(3'b0), .FTMDTRACEINDATA(32'b0), .FTMTF2PDEBUG(32'b0), .MAXIGP1RDATA(32'b0),
        .SAXIACPARADDR(32'b0), .SAXIACPAWADDR(32'b0), .SAXIGP0ARADDR(32'b0), .SAXIGP0AWADDR(32'b0),
        .SAXIGP0WDATA(32'b0), .SAXIGP1ARADDR(32'b0), .SAXIGP1AWADDR(32'b0), .SAXIGP1WDATA(32'b0),
        .SAXIHP0AWADDR(32'b0), .SAXIHP1AWADDR(32'b0), .SAXIHP2AWADDR(32'b0), .DDRARB(4'b0),
        .EMIOSDIO0DATAI(4'b0), .EMIOSDIO1DATAI(4'b0), .FCLKCLKTRIGN(4'b0), .FTMDTRACEINATID(4'b0), .FTMTF2PTRIG(4'b0),
        .FTMTP2FTRIGACK(4'b0), .SAXIACPARCACHE(4'b0), .SAXIACPARLEN(4'b0), .SAXIACPARQOS(4'b0), .SAXIACPAWCACHE(4'b0),
        .SAXIACPAWLEN(4'b0), .SAXIACPAWQOS(4'b0), .SAXIGP0ARCACHE(4'b0), .SAXIGP0ARLEN(4'b0), .SAXIGP0ARQOS(4'b0),
        .SAXIGP0AWCACHE(4'b0), .SAXIGP0AWLEN(4'b0), .SAXIGP0AWQOS(4'b0), .SAXIGP0WSTRB(4'b0), .SAXIGP1ARCACHE(4'b0),
        .SAXIGP1ARLEN(4'b0), .SAXIGP1ARQOS(4'b0), .SAXIGP1AWCACHE(4'b0), .SAXIGP1AWLEN(4'b0), .SAXIGP1AWQOS(4'b0),
        .SAXIGP1WSTRB(4'b0), .SAXIHP0ARQOS(4'b0), .SAXIHP0AWCACHE(4'b0), .SAXIHP0AWLEN(4'b0), .SAXIHP0AWQOS(4'b0),
        .SAXIHP1ARQOS(4'b0), .SAXIHP1AWCACHE(4'b0), .SAXIHP1AWLEN(4'b0),
        .SAXIHP1AWQOS(4'b0), .SAXIHP2ARQOS(4'b0), .SAXIHP2AWCACHE(4'b0), .SAXIHP2AWLEN(4'b0), .SAXIHP2AWQOS(4'b0),
        .SAXIHP3ARQOS(4'b0), .SAXIHP3AWQOS(4'b0), .SAXIACPARUSER(5'b0), .SAXIACPAWUSER(5'b0), .SAXIGP0ARID(6'b0),
        .SAXIGP0AWID(6'b0), .SAXIGP0WID(6'b0), .SAXIGP1ARID(6'b0), .SAXIGP1AWID(6'b0), .SAXIGP1WID(6'b0),
        .SAXIHP0ARID(6'b0), .SAXIHP0AWID(6'b0), .SAXIHP0WID(6'b0), .SAXIHP1ARID(6'b0), .SAXIHP1AWID(6'b0),
        .SAXIHP1WID(6'b0), .SAXIHP2ARID(6'b0), .SAXIHP2AWID(6'b0), .SAXIHP2WID(6'b0), .SAXIHP3ARID(6'b0),
        .SAXIHP3AWID(6'b0), .SAXIHP3WID(6'b0), .EMIOGPIOI(64'b0), .SAXIACPWDATA(64'b0), .SAXIHP0WDATA(64'b0),
        .SAXIHP1WDATA(64'b0), .SAXIHP2WDATA(64'b0), .EMIOENET0GMIIRXD(8'b0), .EMIOENET1GMIIRXD(8'b0),
        .SAXIACPWSTRB(8'b0), .SAXIHP0WSTRB(8'b0), .SAXIHP1WSTRB(8'b0), .SAXIHP2WSTRB(8'b0)
    );
endmodule

`default_nettype wire
