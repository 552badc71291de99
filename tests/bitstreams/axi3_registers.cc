// Random bursts of AXI3 through axi3_registers to a memory behind AXI4-Lite, with random pauses of
// every channel. Prints the number of bursts; ends with 1 at the first wrong answer.
#include <array>
#include <cstdint>
#include <cstdio>
#include <random>

#include "Vaxi3_registers.h"

namespace {

constexpr unsigned kBursts = 1000;
constexpr unsigned kWords = 64;
std::mt19937 generator(7);

bool sometimes() { return generator() % 3 != 0; }

struct Burst {
  bool write;
  std::uint32_t id, word, beats, error;
  std::array<std::uint32_t, 16> data, strobes;
};

}  // namespace

int main() {
  Vaxi3_registers dut;
  std::array<std::uint32_t, kWords> memory{}, expected{};
  Burst burst{};
  unsigned done = 0, cycles = 0, beat = 0;
  bool running = false, addressed = false, has_address = false, has_data = false, answers = false,
       reads = false;
  std::uint32_t write_word = 0, write_data = 0, write_strobes = 0, read_word = 0;
  const auto mask = [](std::uint32_t strobes) {
    std::uint32_t bits = 0;
    for (unsigned n = 0; n < 4; ++n) bits |= (strobes >> n & 1) != 0 ? 0xFFU << 8 * n : 0;
    return bits;
  };
  const auto wrong = [&](const char* what) {
    std::printf("burst %u, beat %u: %s\n", done, beat, what);
    return 1;
  };
  dut.aresetn = 0;
  for (int n = 0; n < 4; ++n) {
    dut.aclk = 0, dut.eval();
    dut.aclk = 1, dut.eval();
  }
  dut.aresetn = 1;
  while (done < kBursts) {
    if (++cycles > 400 * kBursts) return wrong("hangs");
    if (!running) {
      burst.write = generator() % 2 != 0;
      burst.id = generator() % 4096;
      burst.beats = 1 + generator() % 16;
      burst.word = generator() % (kWords - burst.beats + 1);
      for (unsigned n = 0; n < 16; ++n)
        burst.data[n] = generator(), burst.strobes[n] = generator() % 16;
      running = true, addressed = false, beat = 0;
    }
    // The master. What is offered stays until it is taken.
    const bool asks = running && !addressed;
    dut.arvalid = asks && !burst.write, dut.awvalid = asks && burst.write;
    dut.arid = dut.awid = burst.id;
    dut.araddr = dut.awaddr = 4 * burst.word;
    dut.arlen = burst.beats - 1;
    if (!dut.wvalid && burst.write && beat < burst.beats) dut.wvalid = sometimes();
    dut.wdata = burst.data[beat % 16], dut.wstrb = burst.strobes[beat % 16],
    dut.wlast = beat + 1 == burst.beats;
    dut.bready = sometimes(), dut.rready = sometimes();
    // The registers: one write and one read at a time.
    dut.lite_awready = !has_address && sometimes(), dut.lite_wready = !has_data && sometimes();
    if (!dut.lite_bvalid) dut.lite_bvalid = answers && sometimes();
    dut.lite_bresp = write_word == 5 ? 2 : 0;
    dut.lite_arready = !reads && sometimes();
    if (!dut.lite_rvalid) dut.lite_rvalid = reads && sometimes();
    dut.lite_rdata = memory[read_word % kWords], dut.lite_rresp = read_word == 9 ? 2 : 0;
    dut.eval();

    const bool ar = dut.arvalid && dut.arready, aw = dut.awvalid && dut.awready;
    const bool w = dut.wvalid && dut.wready, b = dut.bvalid && dut.bready,
               r = dut.rvalid && dut.rready;
    const bool law = dut.lite_awvalid && dut.lite_awready, lw = dut.lite_wvalid && dut.lite_wready;
    const bool lb = dut.lite_bvalid && dut.lite_bready, lar = dut.lite_arvalid && dut.lite_arready;
    const bool lr = dut.lite_rvalid && dut.lite_rready;
    if (r) {
      const std::uint32_t word = burst.word + beat;
      if (dut.rid != burst.id) return wrong("another id is read");
      if (dut.rdata != expected[word]) return wrong("other data are read");
      if (dut.rresp != (word == 9 ? 2 : 0)) return wrong("the error of a read is lost");
      if (dut.rlast != (beat + 1 == burst.beats))
        return wrong("the last beat of a read is not marked");
    }
    if (b) {
      const bool fails = burst.word <= 5 && 5 < burst.word + burst.beats;
      if (dut.bid != burst.id || beat != burst.beats)
        return wrong("a write is answered too early, or with another id");
      if (dut.bresp != (fails ? 2 : 0)) return wrong("the error of a write is lost");
      if (memory != expected) return wrong("memory differs after a write");
    }
    if (law) has_address = true, write_word = dut.lite_awaddr / 4;
    if (lw) has_data = true, write_data = dut.lite_wdata, write_strobes = dut.lite_wstrb;
    if (lar) reads = true, read_word = dut.lite_araddr / 4;
    dut.aclk = 0, dut.eval();
    dut.aclk = 1, dut.eval();

    addressed = addressed || ar || aw;
    if (w) {
      std::uint32_t& word = expected[burst.word + beat];
      word = (word & ~mask(burst.strobes[beat])) | (burst.data[beat] & mask(burst.strobes[beat]));
      dut.wvalid = 0, ++beat;
    }
    if (has_address && has_data && !answers) {
      std::uint32_t& word = memory[write_word % kWords];
      word = (word & ~mask(write_strobes)) | (write_data & mask(write_strobes));
      answers = true;
    }
    if (lb) answers = has_address = has_data = false, dut.lite_bvalid = 0;
    if (lr) reads = false, dut.lite_rvalid = 0;
    if (r) ++beat;
    if (b || (r && beat == burst.beats)) running = false, ++done;
  }
  std::printf("%u bursts\n", done);
  return 0;
}
