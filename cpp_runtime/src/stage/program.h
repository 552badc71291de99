// Program: a compiled VTA stage, read from its folder (written by vta_stages/program.py).
//
//   Result<Program> program = Program::load(folder);
//   Status status = program->relocate(bases, instructions);
//
// program.json describes the accelerator, the regions of device memory, the layers and the modelled
// cycles. insns.bin contains the instructions with dram_base relative to a region, relocs.bin the
// number of that region for each instruction (255: none), and consts.bin the content of the const
// region. Immutable and therefore thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/device.h"
#include "edgepipe/instruction.h"
#include "edgepipe/status.h"

namespace edgepipe {

enum class RegionKind {
  kConst,    // uops, weights, vectors: filled once
  kScratch,  // undefined before and after a run
  kInput,    // a tensor, filled before a run
  kOutput,   // a tensor, filled by a run
};

/// A contiguous piece of device memory; the region of a tensor has the tensor's name.
struct Region {
  std::string name;
  std::size_t bytes = 0;
  RegionKind kind = RegionKind::kScratch;
};

/// The contents of a program's four files; borrowed.
struct ProgramFiles {
  std::span<const std::byte> description;   // program.json
  std::span<const std::byte> instructions;  // insns.bin
  std::span<const std::byte> relocations;   // relocs.bin
  std::span<const std::byte> constants;     // consts.bin
};

class Program {
 public:
  /// Reads the four files. kNotFound for a missing one, otherwise as parse.
  static Result<Program> load(const std::filesystem::path& folder);

  /// Copies everything it needs. kCorrupt for files that are malformed or contradict each other,
  /// kUnsupported for another format version.
  static Result<Program> parse(const ProgramFiles& files);

  [[nodiscard]] const Accelerator& accelerator() const { return accelerator_; }
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }
  [[nodiscard]] const std::vector<LayerRange>& layers() const { return layers_; }
  [[nodiscard]] std::span<const std::byte> constants() const { return constants_; }
  /// The time of a run by the timing model of its board; 0: not modelled.
  [[nodiscard]] std::chrono::nanoseconds modelled_time() const { return modelled_time_; }
  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(instructions_.size());
  }

  /// Writes count() instructions with absolute dram_base to `out`; `bases` has each region's device
  /// address in bytes. kInvalidArgument for a base that is not a multiple of an instruction's
  /// element size, or that does not fit in dram_base.
  Status relocate(std::span<const std::uint64_t> bases, std::span<InstructionWord> out) const;

 private:
  Program() = default;
  Status read_description(std::span<const std::byte> text);
  Status read_instructions(std::span<const std::byte> words, std::span<const std::byte> regions);

  // An instruction whose dram_base is relative to a region.
  struct Relocation {
    std::uint32_t instruction = 0;
    std::uint32_t region = 0;
    std::uint32_t element_bytes = 0;
  };

  Accelerator accelerator_;
  std::chrono::nanoseconds modelled_time_{0};
  std::vector<Region> regions_;
  std::vector<LayerRange> layers_;
  std::vector<InstructionWord> instructions_;
  std::vector<Relocation> relocations_;
  std::vector<std::byte> constants_;
  std::uint32_t dram_base_bit_ = 0;  // where the field starts in the low word
};

}  // namespace edgepipe
