#include "stage/program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/json_reader.h"
#include "base/mapped_file.h"
#include "isa/accelerator_json.h"

namespace edgepipe {
namespace {

constexpr std::uint64_t kProgramFormat = 1;
constexpr std::uint64_t kMostCycles = std::uint64_t{1} << 34;  // times 10^9 fits 64 bits
constexpr std::uint32_t kNoRegion = 255;
constexpr std::array<std::pair<const char*, RegionKind>, 4> kKinds{{
    {"const", RegionKind::kConst},
    {"scratch", RegionKind::kScratch},
    {"input", RegionKind::kInput},
    {"output", RegionKind::kOutput},
}};

Status corrupt(const std::string& text) { return {Code::kCorrupt, text}; }

void read_region(JsonReader& reader, std::vector<Region>& regions) {
  Region region{.name = reader.text("name"), .bytes = reader.size("bytes")};
  const std::string kind = reader.text("kind");
  const auto* known =
      std::find_if(kKinds.begin(), kKinds.end(), [&](auto& entry) { return kind == entry.first; });
  if (known == kKinds.end()) {
    reader.fail("kind", "found \"" + kind + "\", expected const, scratch, input or output");
    return;
  }
  region.kind = known->second;
  for (const Region& other : regions) {
    if (other.name == region.name) reader.fail("name", "\"" + region.name + "\" appears twice");
  }
  regions.push_back(std::move(region));
}

}  // namespace

Result<Program> Program::load(const std::filesystem::path& folder) {
  std::vector<MappedFile> files;
  for (const char* name : {"program.json", "insns.bin", "relocs.bin", "consts.bin"}) {
    Result<MappedFile> file = MappedFile::open(folder / name);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  Result<Program> program = parse({.description = files[0].bytes(),
                                   .instructions = files[1].bytes(),
                                   .relocations = files[2].bytes(),
                                   .constants = files[3].bytes()});
  if (!program.ok()) return program.status().with_context(folder.string());
  return program;
}

Result<Program> Program::parse(const ProgramFiles& files) {
  Program program;
  if (Status status = program.read_description(files.description); !status.ok()) return status;
  program.constants_.assign(files.constants.begin(), files.constants.end());
  std::size_t expected = 0;
  for (const Region& region : program.regions_) {
    if (region.kind == RegionKind::kConst) expected += region.bytes;
  }
  if (program.constants_.size() != expected) {
    return corrupt("consts.bin: " + std::to_string(program.constants_.size()) +
                   " bytes, expected " + std::to_string(expected) + " as the const region says");
  }
  if (Status status = program.read_instructions(files.instructions, files.relocations);
      !status.ok()) {
    return status;
  }
  return program;
}

Status Program::read_description(std::span<const std::byte> text) {
  Result<nlohmann::json> json = parse_json_object(text, "program.json");
  if (!json.ok()) return json.status();
  JsonReader reader(*json, "program.json");
  const std::uint64_t format = reader.whole("format");
  if (reader.status().ok() && format != kProgramFormat) {
    return {Code::kUnsupported, "program.json: format " + std::to_string(format) +
                                    ", this runtime reads " + std::to_string(kProgramFormat)};
  }
  const nlohmann::json& accelerator = reader.value("accelerator");
  reader.objects("regions", [&](JsonReader& item) { read_region(item, regions_); });
  reader.objects("layers", [&](JsonReader& item) {
    LayerRange layer{.name = item.text("name")};
    const std::uint64_t first = item.whole("first");
    const std::uint64_t count = item.whole("count");
    if (first + count > std::numeric_limits<std::uint32_t>::max() || first + count < first) {
      item.fail("count", "the layer ends beyond 2^32 instructions");
      return;
    }
    layer.first = static_cast<std::uint32_t>(first);
    layer.count = static_cast<std::uint32_t>(count);
    layers_.push_back(std::move(layer));
  });
  const std::uint64_t cycles = reader.whole("modelled_cycles");
  if (!reader.status().ok()) return reader.status();
  Result<Accelerator> parsed = accelerator_from_json(accelerator);
  if (!parsed.ok()) return corrupt("program.json: " + parsed.status().message());
  accelerator_ = *parsed;
  if (cycles > kMostCycles) {
    return corrupt("program.json: modelled_cycles is " + std::to_string(cycles) +
                   ", expected at most " + std::to_string(kMostCycles));
  }
  modelled_time_ = std::chrono::nanoseconds(cycles * std::nano::den / accelerator_.clock_hz);

  if (regions_.size() > kNoRegion) {
    return corrupt("program.json: " + std::to_string(regions_.size()) +
                   " regions, expected at most 255");
  }
  if (std::count_if(regions_.begin(), regions_.end(),
                    [](const Region& region) { return region.kind == RegionKind::kConst; }) > 1) {
    return corrupt("program.json: several const regions, expected at most one");
  }
  return {};
}

Status Program::read_instructions(std::span<const std::byte> words,
                                  std::span<const std::byte> regions) {
  const std::size_t total = words.size() / sizeof(InstructionWord);
  if (words.empty() || words.size() % sizeof(InstructionWord) != 0 ||
      total > std::numeric_limits<std::uint32_t>::max()) {
    return corrupt("insns.bin: " + std::to_string(words.size()) +
                   " bytes, expected a positive multiple of 16");
  }
  if (regions.size() != total) {
    return corrupt("relocs.bin: " + std::to_string(regions.size()) + " bytes, expected one for " +
                   "each of " + std::to_string(total) + " instructions");
  }
  instructions_.resize(total);
  std::memcpy(instructions_.data(), words.data(), words.size());

  const InstructionCodec codec(accelerator_);
  for (const InstructionField& field : codec.fields(Opcode::kLoad)) {
    if (field.name == "dram_base") dram_base_bit_ = field.bit;
  }
  for (std::uint32_t index = 0; index < total; ++index) {
    const auto region = std::to_integer<std::uint32_t>(regions[index]);
    if (region == kNoRegion) continue;
    Result<Instruction> instruction = codec.decode(instructions_[index]);
    const std::string place = "instruction " + std::to_string(index);
    if (!instruction.ok()) return corrupt(place + ": " + instruction.status().message());
    if (region >= regions_.size()) {
      return corrupt(place + " names region " + std::to_string(region) + ", there are " +
                     std::to_string(regions_.size()));
    }
    const bool store = instruction->opcode == Opcode::kStore;
    if (!store && instruction->opcode != Opcode::kLoad) {
      return corrupt(place + " " + disassemble(*instruction) +
                     " names a region, expected a LOAD or STORE");
    }
    const RegionKind kind = regions_[region].kind;
    if (store && kind != RegionKind::kScratch && kind != RegionKind::kOutput) {
      return corrupt(place + " " + disassemble(*instruction) + " writes region " +
                     regions_[region].name + ", expected a scratch or output region");
    }
    relocations_.push_back({.instruction = index,
                            .region = region,
                            .element_bytes = accelerator_.element_bytes(instruction->memory_type)});
  }
  return {};
}

Status Program::relocate(std::span<const std::uint64_t> bases,
                         std::span<InstructionWord> out) const {
  if (bases.size() != regions_.size() || out.size() != instructions_.size()) {
    return {Code::kInvalidArgument,
            "program: " + std::to_string(bases.size()) + " bases and room for " +
                std::to_string(out.size()) + " instructions, expected " +
                std::to_string(regions_.size()) + " and " + std::to_string(instructions_.size())};
  }
  constexpr std::uint64_t kMask = std::numeric_limits<std::uint32_t>::max();
  std::copy(instructions_.begin(), instructions_.end(), out.begin());
  for (const Relocation& relocation : relocations_) {
    const std::uint64_t base = bases[relocation.region];
    std::uint64_t& word = out[relocation.instruction].low;
    const std::uint64_t elements =
        (word >> dram_base_bit_ & kMask) + base / relocation.element_bytes;
    if (base % relocation.element_bytes != 0 || elements > kMask) {
      return {Code::kInvalidArgument,
              "program: region " + regions_[relocation.region].name + " at device address " +
                  std::to_string(base) + ", expected a multiple of " +
                  std::to_string(relocation.element_bytes) + " below 2^32 elements of that size"};
    }
    word = (word & ~(kMask << dram_base_bit_)) | elements << dram_base_bit_;
  }
  return {};
}

}  // namespace edgepipe
