// A slave of AXI3 in front of AXI4-Lite registers: bursts become one access after another.
//
// For a PS7's M_AXI_GP0 without a vendor's interconnect. One burst runs at a time. It must increment, with beats
// of 4 bytes, which is all that a Cortex-A9 sends to memory that Linux maps as a device.
`default_nettype none

module axi3_registers #(
    parameter integer ID_BITS = 12,
    parameter integer OFFSET_BITS = 14
) (
    input  wire aclk,
    input  wire aresetn,

    input  wire [ID_BITS-1:0] awid,
    input  wire [OFFSET_BITS-1:0] awaddr,
    input  wire awvalid,
    output wire awready,
    input  wire [31:0] wdata,
    input  wire [3:0] wstrb,
    input  wire wlast,
    input  wire wvalid,
    output wire wready,
    output reg  [ID_BITS-1:0] bid,
    output wire [1:0] bresp,
    output wire bvalid,
    input  wire bready,
    input  wire [ID_BITS-1:0] arid,
    input  wire [OFFSET_BITS-1:0] araddr,
    input  wire [3:0] arlen,
    input  wire arvalid,
    output wire arready,
    output reg  [ID_BITS-1:0] rid,
    output wire [31:0] rdata,
    output wire [1:0] rresp,
    output wire rlast,
    output wire rvalid,
    input  wire rready,

    output wire [OFFSET_BITS-1:0] lite_awaddr,
    output wire lite_awvalid,
    input  wire lite_awready,
    output wire [31:0] lite_wdata,
    output wire [3:0] lite_wstrb,
    output wire lite_wvalid,
    input  wire lite_wready,
    input  wire [1:0] lite_bresp,
    input  wire lite_bvalid,
    output wire lite_bready,
    output wire [OFFSET_BITS-1:0] lite_araddr,
    output wire lite_arvalid,
    input  wire lite_arready,
    input  wire [31:0] lite_rdata,
    input  wire [1:0] lite_rresp,
    input  wire lite_rvalid,
    output wire lite_rready
);
    localparam [2:0] IDLE = 0, READ_ADDRESS = 1, READ_DATA = 2, WRITE_BEAT = 3, WRITE_SENT = 4, WRITE_ANSWER = 5;

    reg [2:0] state;
    reg [OFFSET_BITS-1:0] address;
    reg [3:0] left;
    reg address_sent, data_sent, was_last;
    reg [1:0] answer;

    // A read goes first if both wait.
    assign arready = state == IDLE;
    assign awready = state == IDLE && !arvalid;

    assign lite_araddr = address;
    assign lite_arvalid = state == READ_ADDRESS;
    assign rdata = lite_rdata;
    assign rresp = lite_rresp;
    assign rlast = left == 0;
    assign rvalid = state == READ_DATA && lite_rvalid;
    assign lite_rready = state == READ_DATA && rready;

    wire address_ends = address_sent || lite_awready;
    wire data_ends = data_sent || lite_wready;
    wire beat = state == WRITE_BEAT && wvalid;
    assign lite_awaddr = address;
    assign lite_awvalid = beat && !address_sent;
    assign lite_wdata = wdata;
    assign lite_wstrb = wstrb;
    assign lite_wvalid = beat && !data_sent;
    assign wready = beat && address_ends && data_ends;
    assign lite_bready = state == WRITE_SENT;
    assign bresp = answer;
    assign bvalid = state == WRITE_ANSWER;

    always @(posedge aclk) begin
        case (state)
            IDLE: begin
                answer <= 2'b00;
                if (arvalid) begin
                    rid <= arid;
                    address <= araddr;
                    left <= arlen;
                    state <= READ_ADDRESS;
                end else if (awvalid) begin
                    bid <= awid;
                    address <= awaddr;
                    state <= WRITE_BEAT;
                end
            end
            READ_ADDRESS: if (lite_arready) state <= READ_DATA;
            READ_DATA: if (lite_rvalid && rready) begin
                address <= address + 4;
                left <= left - 1;
                state <= rlast ? IDLE : READ_ADDRESS;
            end
            WRITE_BEAT: if (beat) begin
                address_sent <= address_ends && !data_ends;
                data_sent <= data_ends && !address_ends;
                if (wready) begin
                    was_last <= wlast;
                    state <= WRITE_SENT;
                end
            end
            WRITE_SENT: if (lite_bvalid) begin
                address <= address + 4;
                answer <= answer | lite_bresp;
                state <= was_last ? WRITE_ANSWER : WRITE_BEAT;
            end
            default: if (bready) state <= IDLE;
        endcase
        if (!aresetn) begin
            state <= IDLE;
            address_sent <= 1'b0;
            data_sent <= 1'b0;
        end
    end
endmodule

`default_nettype wire
