#include "edgepipe/accelerator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "isa/accelerator_json.h"
#include "isa/log2.h"

namespace edgepipe {
namespace {

Status invalid(const std::string& text) { return {Code::kInvalidArgument, "accelerator: " + text}; }

using Field = std::pair<const char*, std::uint32_t Accelerator::*>;
constexpr std::array<Field, 10> kFields{{
    {"batch", &Accelerator::batch},
    {"block_in", &Accelerator::block_in},
    {"block_out", &Accelerator::block_out},
    {"uop_buffer_bytes_log2", &Accelerator::uop_buffer_bytes_log2},
    {"inp_buffer_bytes_log2", &Accelerator::inp_buffer_bytes_log2},
    {"wgt_buffer_bytes_log2", &Accelerator::wgt_buffer_bytes_log2},
    {"acc_buffer_bytes_log2", &Accelerator::acc_buffer_bytes_log2},
    {"acc_hazard_steps", &Accelerator::acc_hazard_steps},
    {"command_queue_depth", &Accelerator::command_queue_depth},
    {"token_queue_depth", &Accelerator::token_queue_depth},
}};
// Missing in descriptions from before 2026-11-24 and in those that do not need them.
constexpr std::array<Field, 2> kOptionalFields{{
    {"load_queue_depth", &Accelerator::load_queue_depth},
    {"uop_index_bits", &Accelerator::uop_index_bits},
}};
constexpr const char* kImplementation = "implementation";
constexpr std::array<std::pair<std::string_view, Implementation>, 3> kImplementations{{
    {"", Implementation::kUnknown},
    {"hls", Implementation::kHls},
    {"chisel", Implementation::kChisel},
}};

constexpr const char* kExtensions = "extensions";
// In the order of their names, in which the hash of a configuration has them.
constexpr std::array<std::pair<std::string_view, Extension>, 7> kExtensionNames{{
    {"clear", Extension::kClear},
    {"leaky", Extension::kLeaky},
    {"multiply", Extension::kMultiply},
    {"pad_value", Extension::kPadValue},
    {"requantise", Extension::kRequantise},
    {"table", Extension::kTable},
    {"widen", Extension::kWiden},
}};

/// The set that a list of names describes; none if there is another name or value in it.
std::optional<std::uint32_t> extensions_of(const nlohmann::json& names) {
  if (!names.is_array()) return std::nullopt;
  std::uint32_t found = 0;
  for (const nlohmann::json& name : names) {
    const auto* const known = std::ranges::find_if(
        kExtensionNames, [&](const auto& extension) { return name == extension.first; });
    if (known == kExtensionNames.end()) return std::nullopt;
    found |= static_cast<std::uint32_t>(known->second);
  }
  return found;
}

std::optional<Implementation> implementation_of(const nlohmann::json& value) {
  for (const auto& [name, implementation] : kImplementations) {
    if (value == name) return implementation;
  }
  return std::nullopt;
}

}  // namespace

std::uint32_t Accelerator::uop_bits() const {
  return uop_index_bits != 0 ? uop_index_bits : log2_of(uop_depth());
}

std::uint32_t Accelerator::element_bytes(MemoryType type) const {
  switch (type) {
    case MemoryType::kUop:
      return uop_bytes();
    case MemoryType::kWgt:
      return wgt_bytes();
    case MemoryType::kInp:
      return inp_bytes();
    case MemoryType::kAcc:
      return acc_bytes();
    case MemoryType::kTable:
      return table_bytes();
    case MemoryType::kAcc8:
    case MemoryType::kOut:
      break;
  }
  return out_bytes();
}

std::uint32_t Accelerator::depth(MemoryType type) const {
  switch (type) {
    case MemoryType::kUop:
      return uop_depth();
    case MemoryType::kWgt:
      return wgt_depth();
    case MemoryType::kInp:
      return inp_depth();
    case MemoryType::kTable:
      return table_depth();
    case MemoryType::kAcc:
    case MemoryType::kAcc8:
    case MemoryType::kOut:
      break;
  }
  return acc_depth();
}

std::string Accelerator::configuration() const {
  const std::string block =
      std::to_string(block_in) + (block_in == block_out ? "" : "x" + std::to_string(block_out));
  return std::to_string(batch) + "x" + block + "_i8w8a32_" + std::to_string(uop_buffer_bytes_log2) +
         "_" + std::to_string(inp_buffer_bytes_log2) + "_" + std::to_string(wgt_buffer_bytes_log2) +
         "_" + std::to_string(acc_buffer_bytes_log2);
}

std::string Accelerator::extension_names() const {
  std::string names;
  for (const auto& [name, extension] : kExtensionNames) {
    if (has(extension)) names += (names.empty() ? "" : ",") + std::string(name);
  }
  return names;
}

Status Accelerator::validate() const {
  for (const auto& [name, bound] : {std::pair{"batch", batch}, std::pair{"block_in", block_in},
                                    std::pair{"block_out", block_out}}) {
    if (!std::has_single_bit(bound) || bound > 256) {
      return invalid(std::string(name) + " is " + std::to_string(bound) +
                     ", expected a power of two up to 256");
    }
  }
  if (block_in < block_out) {
    return invalid("block_in " + std::to_string(block_in) + " is smaller than block_out " +
                   std::to_string(block_out));
  }
  if (block_in != block_out && (implementation != Implementation::kUnknown || batch != 1)) {
    return invalid("block_in " + std::to_string(block_in) + " differs from block_out " +
                   std::to_string(block_out) +
                   ", but upstream's builds and those with a batch have equal blocks");
  }
  for (const auto& [name, bytes_log2, element_bytes] :
       {std::tuple{"uop", uop_buffer_bytes_log2, uop_bytes()},
        std::tuple{"inp", inp_buffer_bytes_log2, inp_bytes()},
        std::tuple{"wgt", wgt_buffer_bytes_log2, wgt_bytes()},
        std::tuple{"acc", acc_buffer_bytes_log2, acc_bytes()}}) {
    if (bytes_log2 > 28 || (1U << bytes_log2) < element_bytes) {
      return invalid(std::string(name) + " buffer of 2^" + std::to_string(bytes_log2) +
                     " bytes, expected at least one element of " + std::to_string(element_bytes) +
                     " bytes and at most 2^28");
    }
  }
  if (acc_hazard_steps < 1 || command_queue_depth < 1 || token_queue_depth < 1) {
    return invalid("acc_hazard_steps, command_queue_depth and token_queue_depth must be >= 1");
  }
  if (implementation == Implementation::kChisel && acc_hazard_steps < 2) {
    return invalid("acc_hazard_steps is " + std::to_string(acc_hazard_steps) +
                   ", expected >= 2 for chisel, which does not pass a result on to the next step");
  }
  if (implementation != Implementation::kUnknown && extensions != 0) {
    return invalid("implementation and extensions are both given, but no upstream build has any");
  }
  if (uop_index_bits != 0 && (uop_index_bits > 13 || uop_index_bits < log2_of(uop_depth()))) {
    return invalid("uop_index_bits is " + std::to_string(uop_index_bits) + ", expected " +
                   std::to_string(log2_of(uop_depth())) + " to 13, or 0");
  }
  // Head 7 bits, reset, uop_bgn, uop_end and two 14-bit loop bounds share the first 64 bits.
  const std::uint32_t uop = uop_bits();
  const std::uint32_t inp = log2_of(inp_depth());
  const std::uint32_t wgt = log2_of(wgt_depth());
  const std::uint32_t acc = log2_of(acc_depth());
  if (8 + 2 * uop + 1 + 28 > 64 || 2 * (acc + inp + wgt) > 64 || 2 * (acc + inp) + 20 > 64 ||
      acc + inp + wgt > 32) {
    return invalid("configuration " + configuration() +
                   " needs wider instruction or uop fields than the encoding provides");
  }
  return {};
}

Result<Accelerator> parse_accelerator(std::string_view json) {
  return accelerator_from_json(nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false));
}

Result<Accelerator> accelerator_from_json(const nlohmann::json& object) {
  if (!object.is_object()) return invalid("expected a JSON object");

  Accelerator accelerator;
  const auto revision = object.find("revision");
  if (revision == object.end() || !revision->is_string()) {
    return invalid("field 'revision' is missing or not a string");
  }
  const auto& text = revision->get_ref<const std::string&>();
  if (text == "0.0.1") {
    accelerator.revision = Revision::k0_0_1;
  } else if (text == "0.0.2") {
    accelerator.revision = Revision::k0_0_2;
  } else {
    return invalid("encoding revision '" + text + "' is unknown, expected 0.0.1 or 0.0.2");
  }
  const auto clock = object.find("clock_hz");
  if (clock == object.end() || !clock->is_number_unsigned() || *clock == 0U) {
    return invalid("field 'clock_hz' is missing or not a positive whole number");
  }
  accelerator.clock_hz = clock->get<std::uint64_t>();
  for (const auto& [name, member] : kFields) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
      return invalid("field '" + std::string(name) + "' is missing or not a 32-bit whole number");
    }
    accelerator.*member = found->get<std::uint32_t>();
  }
  for (const auto& [name, member] : kOptionalFields) {
    const auto found = object.find(name);
    if (found == object.end()) continue;
    if (!found->is_number_unsigned() ||
        found->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
      return invalid("field '" + std::string(name) + "' is not a 32-bit whole number");
    }
    accelerator.*member = found->get<std::uint32_t>();
  }
  if (const auto found = object.find(kImplementation); found != object.end()) {
    const std::optional<Implementation> implementation = implementation_of(*found);
    if (!implementation) return invalid("implementation is unknown, expected hls, chisel or ''");
    accelerator.implementation = *implementation;
  }
  if (const auto found = object.find(kExtensions); found != object.end()) {
    const std::optional<std::uint32_t> extensions = extensions_of(*found);
    if (!extensions) {
      return invalid(
          "extensions: expected a list of requantise, multiply, table, leaky, clear, "
          "widen, pad_value");
    }
    accelerator.extensions = *extensions;
  }
  for (const auto& item : object.items()) {
    bool known = item.key() == "revision" || item.key() == "clock_hz" ||
                 item.key() == kImplementation || item.key() == kExtensions;
    for (const auto& field : kFields) known = known || item.key() == field.first;
    for (const auto& field : kOptionalFields) known = known || item.key() == field.first;
    if (!known) return invalid("unknown field '" + item.key() + "'");
  }
  if (Status status = accelerator.validate(); !status.ok()) return status;
  return accelerator;
}

}  // namespace edgepipe
