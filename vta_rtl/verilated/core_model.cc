#include "core_model.h"

#include <type_traits>

#include "VtaCoreModel.h"
#include "verilated.h"
#if VTA_RTL_WAVEFORMS
#include "verilated_vcd_c.h"
#else
class VerilatedVcdC {};
#endif

namespace vta_rtl {
namespace {

constexpr int kResetCycles = 4;
constexpr std::uint8_t kAllBytes = 0xF;

static_assert(sizeof(std::declval<VtaCoreModel&>().m_axi_store_wdata) == kBusBytes,
              "the model was made for another bus");

std::array<ReadPort, AxiMemory::kReadPorts> read_ports(VtaCoreModel& core) {
#define VTA_RTL_READ_PORT(name)                                                   \
  {                                                                               \
    .arvalid = core.m_axi_##name##_arvalid, .araddr = core.m_axi_##name##_araddr, \
    .arlen = core.m_axi_##name##_arlen, .arready = core.m_axi_##name##_arready,   \
    .rvalid = core.m_axi_##name##_rvalid, .rdata = &core.m_axi_##name##_rdata,    \
    .rresp = core.m_axi_##name##_rresp, .rlast = core.m_axi_##name##_rlast,       \
    .rready = core.m_axi_##name##_rready                                          \
  }
  return {{VTA_RTL_READ_PORT(fetch), VTA_RTL_READ_PORT(load), VTA_RTL_READ_PORT(weight),
           VTA_RTL_READ_PORT(compute)}};
#undef VTA_RTL_READ_PORT
}

WritePort write_port(VtaCoreModel& core) {
  return {.awvalid = core.m_axi_store_awvalid,
          .awaddr = core.m_axi_store_awaddr,
          .awlen = core.m_axi_store_awlen,
          .awready = core.m_axi_store_awready,
          .wvalid = core.m_axi_store_wvalid,
          .wdata = &core.m_axi_store_wdata,
          .wlast = core.m_axi_store_wlast,
          .wready = core.m_axi_store_wready,
          .bvalid = core.m_axi_store_bvalid,
          .bresp = core.m_axi_store_bresp,
          .bready = core.m_axi_store_bready};
}

}  // namespace

CoreModel::CoreModel(Arena arena, const MemoryCosts& costs)
    : context_(std::make_unique<VerilatedContext>()),
      core_(std::make_unique<VtaCoreModel>(context_.get())),
      memory_(arena, costs, read_ports(*core_), write_port(*core_)) {
  context_->traceEverOn(VTA_RTL_WAVEFORMS);
  core_->aresetn = 0;
  for (int k = 0; k < kResetCycles; ++k) cycle();
  core_->aresetn = 1;
}

CoreModel::~CoreModel() {
  stop_waveform();
  core_->final();
}

void CoreModel::cycle() {
  memory_.drive();
  core_->aclk = 0;
  core_->eval();
  memory_.sample();
#if VTA_RTL_WAVEFORMS
  const bool records = waveform_ != nullptr && cycles_ >= first_recorded_cycle_;
  if (records) waveform_->dump(2 * cycles_);
#endif
  core_->aclk = 1;
  core_->eval();
#if VTA_RTL_WAVEFORMS
  if (records) waveform_->dump(2 * cycles_ + 1);
#endif
  ++cycles_;
}

bool CoreModel::record_waveform([[maybe_unused]] const std::string& path,
                                std::uint64_t first_cycle) {
  stop_waveform();
  first_recorded_cycle_ = first_cycle;
#if VTA_RTL_WAVEFORMS
  constexpr int kAllLevels = 99;
  waveform_ = std::make_unique<VerilatedVcdC>();
  core_->trace(waveform_.get(), kAllLevels);
  waveform_->open(path.c_str());
  return waveform_->isOpen();
#else
  return false;
#endif
}

void CoreModel::stop_waveform() {
#if VTA_RTL_WAVEFORMS
  if (waveform_ != nullptr) waveform_->close();
#endif
  waveform_.reset();
}

// What the slave's handshakes are in a cycle is known before its rising edge: they depend on
// registers alone.
std::uint32_t CoreModel::read(std::uint32_t offset) {
  core_->s_axi_control_araddr = static_cast<std::uint16_t>(offset);
  core_->s_axi_control_arvalid = 1;
  while (core_->s_axi_control_arready == 0) cycle();
  cycle();
  core_->s_axi_control_arvalid = 0;
  core_->s_axi_control_rready = 1;
  while (core_->s_axi_control_rvalid == 0) cycle();
  const std::uint32_t value = core_->s_axi_control_rdata;
  cycle();
  core_->s_axi_control_rready = 0;
  return value;
}

void CoreModel::write(std::uint32_t offset, std::uint32_t value) {
  core_->s_axi_control_awaddr = static_cast<std::uint16_t>(offset);
  core_->s_axi_control_awvalid = 1;
  core_->s_axi_control_wdata = value;
  core_->s_axi_control_wstrb = kAllBytes;
  core_->s_axi_control_wvalid = 1;
  core_->s_axi_control_bready = 1;
  while (core_->s_axi_control_awready == 0 || core_->s_axi_control_wready == 0) cycle();
  cycle();
  core_->s_axi_control_awvalid = 0;
  core_->s_axi_control_wvalid = 0;
  while (core_->s_axi_control_bvalid == 0) cycle();
  cycle();
  core_->s_axi_control_bready = 0;
}

bool CoreModel::interrupted() const { return core_->irq != 0; }

}  // namespace vta_rtl
