#!/bin/sh
# The bitstream of a PYNQ-Z2 with openXC7: yosys, nextpnr-xilinx and prjxray, as you have installed them.
#
#   make bitstream-sources DESIGN=pynq-z2-openxc7
#   CHIPDB=xc7z020clg400.bin PRJXRAY_DB_DIR=prjxray-db bitstreams/openxc7/pynq-z2.sh [FOLDER]
#
# NOT TRIED WITH OPENXC7: nobody has placed this design with it, or run its result on a board. What is known of
# openXC7 was seen with parts of other designs:
#
#  * Constants at DSP48E1's INMODE, ALUMODE and OPMODE were left out of the bitstream, so products were wrong. So
#    there are none: this design has its products in LUTs, and -nodsp keeps yosys from using the cell.
#  * A design with RAMB18E1 and RAMB36E1 was not placed. yosys chooses; the script says how many there are.
#  * Cascaded RAMB36E1 were wrong before nextpnr-xilinx 0.9.6.
#  * nextpnr-xilinx refuses the cells $scopeinfo that newer yosys writes, so they are deleted.
set -eu

part=xc7z020clg400-1
here=$(cd "$(dirname "$0")" && pwd)
design=pynq-z2-openxc7
folder=${1:-$here/../../build/bitstreams/$design}

fail() {
    echo "error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}

# find_tool NAME...: the first of these programs that is installed.
find_tool() {
    for name in "$@"; do
        if command -v "$name"; then
            return
        fi
    done
    fail "found no $1, expected openXC7's tools on PATH" \
        "install them (https://github.com/openXC7) and put their programs on PATH"
}

# cells NAME: how many of these cells yosys has counted, in any of its formats.
cells() {
    awk -v cell="$1" '$0 ~ cell { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+$/) n = $i } END { print n + 0 }' cells.txt
}

[ -r "$folder/settings.tcl" ] || fail "$folder: no settings.tcl, expected the design's sources" \
    "write them with \`make bitstream-sources DESIGN=$design\`"
yosys=$(find_tool yosys)
nextpnr=$(find_tool nextpnr-xilinx)
frames=$(find_tool fasm2frames fasm2frames.py)
assemble=$(find_tool xc7frames2bit)
[ -r "${CHIPDB:-}" ] || fail "CHIPDB is ${CHIPDB:-not set}, expected nextpnr-xilinx's file of the XC7Z020" \
    "make it with nextpnr-xilinx's bbaexport.py and bbasm (--device $part), and set CHIPDB to its path"
database=${PRJXRAY_DB_DIR:-}/zynq7
[ -r "$database/$part/part.yaml" ] || fail "$database: no $part/part.yaml, expected prjxray's database" \
    "get https://github.com/openXC7/prjxray-db, and set PRJXRAY_DB_DIR to it"

clock_mhz=$(sed -n 's/^set clock_mhz //p' "$folder/settings.tcl")
case $clock_mhz in
100) divide=1 ;;
50) divide=2 ;;
*) fail "$folder: the clock is $clock_mhz MHz, expected 50 or 100, which this design makes of FCLK0's 100 MHz" \
    "write the sources again with CLOCK_MHZ=50 or CLOCK_MHZ=100" ;;
esac

cd "$folder"
cp "$here/../verilog/edgepipe_vta_board.v" "$here/axi3_registers.v" "$here/edgepipe_pynq_z2.v" .
"$yosys" -q -l yosys.log -p "
    read_verilog edgepipe_vta.v edgepipe_vta_board.v axi3_registers.v edgepipe_pynq_z2.v
    chparam -set DIVIDE $divide edgepipe_pynq_z2
    synth_xilinx -family xc7 -top edgepipe_pynq_z2 -flatten -nodsp -noiopad
    delete t:\$scopeinfo
    tee -o cells.txt stat
    write_json netlist.json"
echo "$design: $(cells RAMB36E1) RAMB36E1 and $(cells RAMB18E1) RAMB18E1; see cells.txt and yosys.log in $folder"
"$nextpnr" --chipdb "$CHIPDB" --json netlist.json --freq "$clock_mhz" --fasm design.fasm >nextpnr.log 2>&1 ||
    fail "nextpnr-xilinx did not place and route $design: $(tail -n 1 nextpnr.log)" "read $folder/nextpnr.log"
reached=$(sed -n "s/.*Max frequency for clock.*: \([0-9.]*\) MHz.*/\1/p" nextpnr.log | tail -n 1)
[ -n "$reached" ] || fail "nextpnr-xilinx gave no frequency for $design" "read $folder/nextpnr.log"
awk "BEGIN { exit !($reached >= $clock_mhz) }" || fail "$design misses $clock_mhz MHz: it reaches $reached MHz" \
    "write the sources again with CLOCK_MHZ=50, or try another --seed of nextpnr-xilinx"
"$frames" --part "$part" --db-root "$database" design.fasm >design.frames
"$assemble" --part_file "$database/$part/part.yaml" --part_name "$part" --frm_file design.frames \
    --output_file "edgepipe-$design.bit"

digest=$(sha256sum "edgepipe-$design.bit" | cut -d ' ' -f 1)
sed -e "s/@SHA256@/$digest/" -e "s/@NOTE@/openXC7, nextpnr-xilinx estimates $reached MHz/" entry.json.in \
    >"edgepipe-$design.bit.json"
echo "$folder/edgepipe-$design.bit and .bit.json: next, edgepipe bitstream install (docs/guides/own-bitstream.md)"
