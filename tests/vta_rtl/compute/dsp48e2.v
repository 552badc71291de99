// The parts of UltraScale+'s DSP48E2 that dsp_cell.py uses, as UG579 describes them: one
// register for A, B and D, the pre-adder D + A, the multiplier with its register, and the sum
// with C in a register; or the product of A and B alone, without a register. Other settings end
// the simulation.
module DSP48E2 #(
  parameter AREG = 1, BREG = 1, DREG = 1, MREG = 1, PREG = 1, ACASCREG = 1, BCASCREG = 1,
  parameter ADREG = 1, CREG = 1, ALUMODEREG = 1, CARRYINREG = 1, CARRYINSELREG = 1,
  parameter INMODEREG = 1, OPMODEREG = 1,
  parameter AMULTSEL = "A", BMULTSEL = "B", PREADDINSEL = "A", USE_MULT = "MULTIPLY"
) (
  input CLK,
  input [29:0] A, ACIN,
  input [17:0] B, BCIN,
  input [47:0] C, PCIN,
  input [26:0] D,
  input [4:0] INMODE,
  input [8:0] OPMODE,
  input [3:0] ALUMODE,
  input [2:0] CARRYINSEL,
  input CARRYIN, CARRYCASCIN, MULTSIGNIN,
  input CEA1, CEA2, CEB1, CEB2, CED, CEAD, CEM, CEP, CEC, CEALUMODE, CECARRYIN, CECTRL, CEINMODE,
  input RSTA, RSTB, RSTC, RSTD, RSTM, RSTP, RSTALLCARRYIN, RSTALUMODE, RSTCTRL, RSTINMODE,
  output [47:0] P
);
  localparam ADDS = AMULTSEL == "AD";
  initial begin
    if (AREG != ADDS || BREG != ADDS || DREG != ADDS || MREG != ADDS || PREG != ADDS)
      $fatal(1, "DSP48E2 model: A, B, D, M and P must have one register each, or none without D");
    if (ADREG != 0 || CREG != 0 || ALUMODEREG != 0 || INMODEREG != 0 || OPMODEREG != 0)
      $fatal(1, "DSP48E2 model: AD, C and the modes must have no register");
    if (AMULTSEL != "AD" && AMULTSEL != "A" || BMULTSEL != "B" || PREADDINSEL != "A"
        || USE_MULT != "MULTIPLY")
      $fatal(1, "DSP48E2 model: the multiplier must take D + A or A, and B");
  end

  reg signed [26:0] a_register, d_register;
  reg signed [17:0] b_register;
  reg signed [44:0] m_register;
  reg [47:0] p_register;
  wire signed [26:0] pre_adder = d_register + a_register;
  wire signed [44:0] product = $signed(A[26:0]) * $signed(B);

  generate
    if (ADDS) begin
      assign P = p_register;
      always @(posedge CLK) begin
        if (INMODE != 5'b00100 || OPMODE != 9'b000110101 || ALUMODE != 0 || CARRYINSEL != 0
            || CARRYIN)
          $fatal(1, "DSP48E2 model: the operation must be C + (D + A) * B");
        if (RSTA || RSTB || RSTD || RSTM || RSTP) $fatal(1, "DSP48E2 model: no reset is modelled");
        if (CEA2) a_register <= A[26:0];
        if (CEB2) b_register <= B;
        if (CED) d_register <= D;
        if (CEM) m_register <= pre_adder * b_register;
        if (CEP) p_register <= C + {{3{m_register[44]}}, m_register};
      end
    end else begin
      assign P = {{3{product[44]}}, product};
      always @*
        if (INMODE != 0 || OPMODE != 9'b000000101 || ALUMODE != 0 || CARRYINSEL != 0 || CARRYIN)
          $fatal(1, "DSP48E2 model: the operation must be A * B");
    end
  endgenerate
endmodule
