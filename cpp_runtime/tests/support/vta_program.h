// A small VTA program with its own simulator and memory, for tests (product_program.h).
#pragma once

#include <memory>

#include "edgepipe/conformance/product_program.h"
#include "simulator/simulator.h"

namespace edgepipe::testing {

/// What a VtaProgram runs on. A base class, so that it exists before and after the program.
struct SimulatorRig {
  SimulatorRig(const Accelerator& a, const Simulator::Options& options)
      : accelerator(a), simulator(*Simulator::create(a, *memory, options)) {}

  Accelerator accelerator;
  std::unique_ptr<HostMemory> memory = *HostMemory::create({.arena_bytes = std::size_t{1} << 20});
  std::unique_ptr<Simulator> simulator;
};

class VtaProgram : public SimulatorRig, public conformance::ProductProgram {
 public:
  explicit VtaProgram(const Accelerator& a = {}, const Simulator::Options& options = {})
      : SimulatorRig(a, options), ProductProgram(*simulator) {}
};

}  // namespace edgepipe::testing
