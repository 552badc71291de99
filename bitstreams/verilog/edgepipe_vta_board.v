// The accelerator (edgepipe_vta) as a board's design connects it: four AXI4 masters, since the one that
// only writes shares a port with one that only reads; and a reset of its own.
//
// The attributes name the interfaces for Vivado's block designs. Nothing here was tried with Vivado.
`default_nettype none

module edgepipe_vta_board #(
    parameter integer BUS_BYTES = 16
) (
    // The clock of everything here, and whether it is stable: 1 where it always is.
    (* X_INTERFACE_INFO = "xilinx.com:signal:clock:1.0 aclk CLK" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME aclk, ASSOCIATED_BUSIF s_axi_control:m_axi_load:m_axi_weight:m_axi_compute:m_axi_fetch_store, ASSOCIATED_RESET aresetn" *)
    input  wire aclk,
    input  wire clock_locked,

    // A synchronous reset for what else is on the buses: 0 for 16 cycles after the clock is stable. It does
    // not depend on the reset lines of the processors, which boot code may leave low.
    (* X_INTERFACE_INFO = "xilinx.com:signal:reset:1.0 aresetn RST" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME aresetn, POLARITY ACTIVE_LOW" *)
    output wire aresetn,

    (* X_INTERFACE_INFO = "xilinx.com:signal:interrupt:1.0 irq INTERRUPT" *)
    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME irq, SENSITIVITY LEVEL_HIGH" *)
    output wire irq,

    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME s_axi_control, PROTOCOL AXI4LITE" *)
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control AWADDR" *)
    input  wire [13:0] s_axi_control_awaddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control AWPROT" *)
    input  wire [2:0] s_axi_control_awprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control AWVALID" *)
    input  wire s_axi_control_awvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control AWREADY" *)
    output wire s_axi_control_awready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control WDATA" *)
    input  wire [31:0] s_axi_control_wdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control WSTRB" *)
    input  wire [3:0] s_axi_control_wstrb,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control WVALID" *)
    input  wire s_axi_control_wvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control WREADY" *)
    output wire s_axi_control_wready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control BRESP" *)
    output wire [1:0] s_axi_control_bresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control BVALID" *)
    output wire s_axi_control_bvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control BREADY" *)
    input  wire s_axi_control_bready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control ARADDR" *)
    input  wire [13:0] s_axi_control_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control ARPROT" *)
    input  wire [2:0] s_axi_control_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control ARVALID" *)
    input  wire s_axi_control_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control ARREADY" *)
    output wire s_axi_control_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control RDATA" *)
    output wire [31:0] s_axi_control_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control RRESP" *)
    output wire [1:0] s_axi_control_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control RVALID" *)
    output wire s_axi_control_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axi_control RREADY" *)
    input  wire s_axi_control_rready,

    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME m_axi_load, PROTOCOL AXI4, READ_WRITE_MODE READ_ONLY, MAX_BURST_LENGTH 16" *)
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARADDR" *)
    output wire [31:0] m_axi_load_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARLEN" *)
    output wire [7:0] m_axi_load_arlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARSIZE" *)
    output wire [2:0] m_axi_load_arsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARBURST" *)
    output wire [1:0] m_axi_load_arburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARCACHE" *)
    output wire [3:0] m_axi_load_arcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARPROT" *)
    output wire [2:0] m_axi_load_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARVALID" *)
    output wire m_axi_load_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load ARREADY" *)
    input  wire m_axi_load_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load RDATA" *)
    input  wire [8*BUS_BYTES-1:0] m_axi_load_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load RRESP" *)
    input  wire [1:0] m_axi_load_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load RLAST" *)
    input  wire m_axi_load_rlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load RVALID" *)
    input  wire m_axi_load_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_load RREADY" *)
    output wire m_axi_load_rready,

    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME m_axi_weight, PROTOCOL AXI4, READ_WRITE_MODE READ_ONLY, MAX_BURST_LENGTH 16" *)
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARADDR" *)
    output wire [31:0] m_axi_weight_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARLEN" *)
    output wire [7:0] m_axi_weight_arlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARSIZE" *)
    output wire [2:0] m_axi_weight_arsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARBURST" *)
    output wire [1:0] m_axi_weight_arburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARCACHE" *)
    output wire [3:0] m_axi_weight_arcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARPROT" *)
    output wire [2:0] m_axi_weight_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARVALID" *)
    output wire m_axi_weight_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight ARREADY" *)
    input  wire m_axi_weight_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight RDATA" *)
    input  wire [8*BUS_BYTES-1:0] m_axi_weight_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight RRESP" *)
    input  wire [1:0] m_axi_weight_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight RLAST" *)
    input  wire m_axi_weight_rlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight RVALID" *)
    input  wire m_axi_weight_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_weight RREADY" *)
    output wire m_axi_weight_rready,

    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME m_axi_compute, PROTOCOL AXI4, READ_WRITE_MODE READ_ONLY, MAX_BURST_LENGTH 16" *)
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARADDR" *)
    output wire [31:0] m_axi_compute_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARLEN" *)
    output wire [7:0] m_axi_compute_arlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARSIZE" *)
    output wire [2:0] m_axi_compute_arsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARBURST" *)
    output wire [1:0] m_axi_compute_arburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARCACHE" *)
    output wire [3:0] m_axi_compute_arcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARPROT" *)
    output wire [2:0] m_axi_compute_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARVALID" *)
    output wire m_axi_compute_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute ARREADY" *)
    input  wire m_axi_compute_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute RDATA" *)
    input  wire [8*BUS_BYTES-1:0] m_axi_compute_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute RRESP" *)
    input  wire [1:0] m_axi_compute_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute RLAST" *)
    input  wire m_axi_compute_rlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute RVALID" *)
    input  wire m_axi_compute_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_compute RREADY" *)
    output wire m_axi_compute_rready,

    (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME m_axi_fetch_store, PROTOCOL AXI4, READ_WRITE_MODE READ_WRITE, MAX_BURST_LENGTH 16" *)
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWADDR" *)
    output wire [31:0] m_axi_fetch_store_awaddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWLEN" *)
    output wire [7:0] m_axi_fetch_store_awlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWSIZE" *)
    output wire [2:0] m_axi_fetch_store_awsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWBURST" *)
    output wire [1:0] m_axi_fetch_store_awburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWCACHE" *)
    output wire [3:0] m_axi_fetch_store_awcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWPROT" *)
    output wire [2:0] m_axi_fetch_store_awprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWVALID" *)
    output wire m_axi_fetch_store_awvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store AWREADY" *)
    input  wire m_axi_fetch_store_awready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store WDATA" *)
    output wire [8*BUS_BYTES-1:0] m_axi_fetch_store_wdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store WSTRB" *)
    output wire [BUS_BYTES-1:0] m_axi_fetch_store_wstrb,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store WLAST" *)
    output wire m_axi_fetch_store_wlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store WVALID" *)
    output wire m_axi_fetch_store_wvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store WREADY" *)
    input  wire m_axi_fetch_store_wready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store BRESP" *)
    input  wire [1:0] m_axi_fetch_store_bresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store BVALID" *)
    input  wire m_axi_fetch_store_bvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store BREADY" *)
    output wire m_axi_fetch_store_bready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARADDR" *)
    output wire [31:0] m_axi_fetch_store_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARLEN" *)
    output wire [7:0] m_axi_fetch_store_arlen,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARSIZE" *)
    output wire [2:0] m_axi_fetch_store_arsize,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARBURST" *)
    output wire [1:0] m_axi_fetch_store_arburst,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARCACHE" *)
    output wire [3:0] m_axi_fetch_store_arcache,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARPROT" *)
    output wire [2:0] m_axi_fetch_store_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARVALID" *)
    output wire m_axi_fetch_store_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store ARREADY" *)
    input  wire m_axi_fetch_store_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store RDATA" *)
    input  wire [8*BUS_BYTES-1:0] m_axi_fetch_store_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store RRESP" *)
    input  wire [1:0] m_axi_fetch_store_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store RLAST" *)
    input  wire m_axi_fetch_store_rlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store RVALID" *)
    input  wire m_axi_fetch_store_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 m_axi_fetch_store RREADY" *)
    output wire m_axi_fetch_store_rready
);
    reg [15:0] settled;
    initial settled = 16'b0;

    always @(posedge aclk or negedge clock_locked) begin
        if (!clock_locked) settled <= 16'b0;
        else settled <= {settled[14:0], 1'b1};
    end

    assign aresetn = settled[15];

    // AxPROT of the registers says nothing to them.
    wire unused = &{1'b0, s_axi_control_awprot, s_axi_control_arprot};

    edgepipe_vta core (
        .aclk(aclk),
        .aresetn(aresetn),
        .irq(irq),
        .s_axi_control_awaddr(s_axi_control_awaddr),
        .s_axi_control_awvalid(s_axi_control_awvalid),
        .s_axi_control_awready(s_axi_control_awready),
        .s_axi_control_wdata(s_axi_control_wdata),
        .s_axi_control_wstrb(s_axi_control_wstrb),
        .s_axi_control_wvalid(s_axi_control_wvalid),
        .s_axi_control_wready(s_axi_control_wready),
        .s_axi_control_bresp(s_axi_control_bresp),
        .s_axi_control_bvalid(s_axi_control_bvalid),
        .s_axi_control_bready(s_axi_control_bready),
        .s_axi_control_araddr(s_axi_control_araddr),
        .s_axi_control_arvalid(s_axi_control_arvalid),
        .s_axi_control_arready(s_axi_control_arready),
        .s_axi_control_rdata(s_axi_control_rdata),
        .s_axi_control_rresp(s_axi_control_rresp),
        .s_axi_control_rvalid(s_axi_control_rvalid),
        .s_axi_control_rready(s_axi_control_rready),
        .m_axi_load_araddr(m_axi_load_araddr),
        .m_axi_load_arlen(m_axi_load_arlen),
        .m_axi_load_arsize(m_axi_load_arsize),
        .m_axi_load_arburst(m_axi_load_arburst),
        .m_axi_load_arcache(m_axi_load_arcache),
        .m_axi_load_arprot(m_axi_load_arprot),
        .m_axi_load_arvalid(m_axi_load_arvalid),
        .m_axi_load_arready(m_axi_load_arready),
        .m_axi_load_rdata(m_axi_load_rdata),
        .m_axi_load_rresp(m_axi_load_rresp),
        .m_axi_load_rlast(m_axi_load_rlast),
        .m_axi_load_rvalid(m_axi_load_rvalid),
        .m_axi_load_rready(m_axi_load_rready),
        .m_axi_weight_araddr(m_axi_weight_araddr),
        .m_axi_weight_arlen(m_axi_weight_arlen),
        .m_axi_weight_arsize(m_axi_weight_arsize),
        .m_axi_weight_arburst(m_axi_weight_arburst),
        .m_axi_weight_arcache(m_axi_weight_arcache),
        .m_axi_weight_arprot(m_axi_weight_arprot),
        .m_axi_weight_arvalid(m_axi_weight_arvalid),
        .m_axi_weight_arready(m_axi_weight_arready),
        .m_axi_weight_rdata(m_axi_weight_rdata),
        .m_axi_weight_rresp(m_axi_weight_rresp),
        .m_axi_weight_rlast(m_axi_weight_rlast),
        .m_axi_weight_rvalid(m_axi_weight_rvalid),
        .m_axi_weight_rready(m_axi_weight_rready),
        .m_axi_compute_araddr(m_axi_compute_araddr),
        .m_axi_compute_arlen(m_axi_compute_arlen),
        .m_axi_compute_arsize(m_axi_compute_arsize),
        .m_axi_compute_arburst(m_axi_compute_arburst),
        .m_axi_compute_arcache(m_axi_compute_arcache),
        .m_axi_compute_arprot(m_axi_compute_arprot),
        .m_axi_compute_arvalid(m_axi_compute_arvalid),
        .m_axi_compute_arready(m_axi_compute_arready),
        .m_axi_compute_rdata(m_axi_compute_rdata),
        .m_axi_compute_rresp(m_axi_compute_rresp),
        .m_axi_compute_rlast(m_axi_compute_rlast),
        .m_axi_compute_rvalid(m_axi_compute_rvalid),
        .m_axi_compute_rready(m_axi_compute_rready),
        .m_axi_fetch_araddr(m_axi_fetch_store_araddr),
        .m_axi_fetch_arlen(m_axi_fetch_store_arlen),
        .m_axi_fetch_arsize(m_axi_fetch_store_arsize),
        .m_axi_fetch_arburst(m_axi_fetch_store_arburst),
        .m_axi_fetch_arcache(m_axi_fetch_store_arcache),
        .m_axi_fetch_arprot(m_axi_fetch_store_arprot),
        .m_axi_fetch_arvalid(m_axi_fetch_store_arvalid),
        .m_axi_fetch_arready(m_axi_fetch_store_arready),
        .m_axi_fetch_rdata(m_axi_fetch_store_rdata),
        .m_axi_fetch_rresp(m_axi_fetch_store_rresp),
        .m_axi_fetch_rlast(m_axi_fetch_store_rlast),
        .m_axi_fetch_rvalid(m_axi_fetch_store_rvalid),
        .m_axi_fetch_rready(m_axi_fetch_store_rready),
        .m_axi_store_awaddr(m_axi_fetch_store_awaddr),
        .m_axi_store_awlen(m_axi_fetch_store_awlen),
        .m_axi_store_awsize(m_axi_fetch_store_awsize),
        .m_axi_store_awburst(m_axi_fetch_store_awburst),
        .m_axi_store_awcache(m_axi_fetch_store_awcache),
        .m_axi_store_awprot(m_axi_fetch_store_awprot),
        .m_axi_store_awvalid(m_axi_fetch_store_awvalid),
        .m_axi_store_awready(m_axi_fetch_store_awready),
        .m_axi_store_wdata(m_axi_fetch_store_wdata),
        .m_axi_store_wstrb(m_axi_fetch_store_wstrb),
        .m_axi_store_wlast(m_axi_fetch_store_wlast),
        .m_axi_store_wvalid(m_axi_fetch_store_wvalid),
        .m_axi_store_wready(m_axi_fetch_store_wready),
        .m_axi_store_bresp(m_axi_fetch_store_bresp),
        .m_axi_store_bvalid(m_axi_fetch_store_bvalid),
        .m_axi_store_bready(m_axi_fetch_store_bready)
    );
endmodule

`default_nettype wire
