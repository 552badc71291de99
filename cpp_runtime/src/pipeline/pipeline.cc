#include "edgepipe/pipeline.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <deque>
#include <utility>

#include "base/out_of_memory.h"
#include "base/thread.h"
#include "pipeline/frame_schedule.h"
#include "pipeline/recovering_stage.h"
#include "pipeline/slot_buffers.h"
#include "stage/core_team.h"

namespace edgepipe {
namespace {

constexpr unsigned long kTimerSlackNs = 1000;

bool is_serial(const Pipeline::Options& options) { return options.mode == Pipeline::Mode::kSerial; }

bool has_crews(const Pipeline::Options& options) {
  return !is_serial(options) && !options.crews.empty();
}

FrameSchedule::Options schedule_options(const Graph& graph, std::size_t slots,
                                        const Pipeline::Options& options) {
  FrameSchedule::Options made{.stages = {},
                              .workers = is_serial(options) ? 1 : graph.nodes.size(),
                              .slots = slots,
                              .spin = options.spin,
                              .trace_spans = options.trace_spans};
  for (std::size_t stage = 0; stage < graph.nodes.size(); ++stage) {
    made.stages.push_back({.name = std::string(graph.nodes[stage].stage->name()),
                           .producers = graph.producers(stage),
                           .worker = is_serial(options) ? 0 : stage});
  }
  if (!has_crews(options)) return made;
  made.crews = options.crews.size();
  made.workers = 0;
  for (std::size_t crew = 0; crew < options.crews.size(); ++crew) {
    made.workers += options.crews[crew].threads.size();
    for (const std::size_t stage : options.crews[crew].stages) made.stages[stage].worker = crew;
  }
  return made;
}

Status check_crews(const Graph& graph, const Pipeline::Options& options) {
  if (!has_crews(options)) return {};
  std::vector<std::size_t> crews_of(graph.nodes.size());
  for (const Pipeline::Crew& crew : options.crews) {
    if (crew.threads.empty()) {
      return {Code::kInvalidArgument, "crew '" + crew.name + "' has no thread"};
    }
    if (crew.stages.empty()) {
      return {Code::kInvalidArgument, "crew '" + crew.name + "' has no stage"};
    }
    for (const std::size_t stage : crew.stages) {
      if (stage >= crews_of.size()) {
        return {Code::kInvalidArgument, "crew '" + crew.name + "' has stage " +
                                            std::to_string(stage) + " of " +
                                            std::to_string(crews_of.size())};
      }
      ++crews_of[stage];
    }
  }
  for (std::size_t stage = 0; stage < crews_of.size(); ++stage) {
    if (crews_of[stage] == 1) continue;
    return {Code::kInvalidArgument, "stage " + std::to_string(stage) + " '" +
                                        std::string(graph.nodes[stage].stage->name()) +
                                        "' belongs to " + std::to_string(crews_of[stage]) +
                                        " crews, expected 1"};
  }
  return {};
}

/// The cores of the thread itself, without its helpers.
std::vector<int> own_cores(const Pipeline::StageThread& thread) {
  if (thread.threads <= 1 || thread.cores.empty()) return thread.cores;
  return {thread.cores.front()};
}

/// Runs `thread` on the core of `host`, and its helpers on other cores.
void move_to(const Pipeline::StageThread& host, Pipeline::StageThread& thread) {
  const std::vector<int> home = own_cores(host);
  if (thread.threads <= 1 || home.empty() || thread.cores.empty()) {
    thread.cores = home;
    return;
  }
  const auto same = std::ranges::find(thread.cores, home.front());
  if (same != thread.cores.end()) std::swap(*same, thread.cores.front());
  thread.cores.front() = home.front();
}

}  // namespace

/// The stages on their threads, with the cores that they run on.
class Pipeline::Machinery {
 public:
  Machinery(Graph graph, DeviceMemory& memory, SlotBuffers buffers, const Options& options);
  ~Machinery();
  Machinery(const Machinery&) = delete;
  Machinery& operator=(const Machinery&) = delete;

  Status bind_stages();
  Status start_workers() EDGEPIPE_EXCLUDES(mutex_);
  Status restart(Clock::time_point deadline) EDGEPIPE_EXCLUDES(mutex_);

  [[nodiscard]] PipelineStatistics statistics() const EDGEPIPE_EXCLUDES(mutex_);
  [[nodiscard]] PipelineTrace trace() const;
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const SlotBuffers& buffers() const { return buffers_; }
  [[nodiscard]] FrameSchedule& schedule() { return *schedule_; }

 private:
  /// A thread and its stages: it runs them in this order on each frame, or shares them with its
  /// crew.
  struct Worker {
    std::vector<std::size_t> stages;
    std::string name;
    std::size_t crew = 0;
    std::size_t member = 0;                 // of the crew's threads
    std::vector<StageThread> threads = {};  // as it was started; a crew's thread has one
    std::optional<Thread> thread = std::nullopt;
  };

  [[nodiscard]] std::vector<BufferView> views(std::size_t slot,
                                              const std::vector<std::size_t>& tensors) const;
  void add_workers(const FrameSchedule::Options& schedule);
  [[nodiscard]] std::vector<StageThread> wanted_threads(const Worker& worker) const;
  Status start_worker(Worker& worker, const std::vector<StageThread>& as);
  void note_cores() EDGEPIPE_EXCLUDES(mutex_);
  void work(const Worker& worker);
  void work_in_order(const Worker& worker);
  void work_in_crew(const Worker& worker);
  Status run(std::size_t stage, std::uint64_t frame);
  [[nodiscard]] std::size_t number_of(const Worker& worker) const {
    return static_cast<std::size_t>(&worker - workers_.data());
  }

  Graph graph_;
  SlotBuffers buffers_;
  const Options options_;
  std::deque<RecoveringStage> stages_;            // a deque, because they cannot move
  std::vector<std::unique_ptr<CoreTeam>> teams_;  // by stage; null: it works alone
  std::vector<Worker> workers_;
  std::unique_ptr<FrameSchedule> schedule_;

  mutable Mutex mutex_;
  // Where each stage's threads may run; a restart may be watched through statistics().
  std::vector<std::vector<int>> cores_ EDGEPIPE_GUARDED_BY(mutex_);
};

Result<std::unique_ptr<Pipeline>> Pipeline::create(Graph graph, DeviceMemory& memory,
                                                   const Options& options) {
  if (Status status = graph.validate(); !status.ok()) return status;
  if (Status status = check_crews(graph, options); !status.ok()) {
    return status.with_context("pipeline");
  }
  const std::size_t slots = options.slots == 0 ? graph.nodes.size() + 2 : options.slots;
  Result<SlotBuffers> buffers = SlotBuffers::create(graph, slots, memory, options.own_buffers);
  if (!buffers.ok()) return buffers.status().with_context("pipeline");

  auto machinery =
      std::make_unique<Machinery>(std::move(graph), memory, std::move(*buffers), options);
  if (Status status = machinery->bind_stages(); !status.ok()) return status;
  if (Status status = machinery->start_workers(); !status.ok()) return status;
  return std::unique_ptr<Pipeline>(new Pipeline(std::move(machinery)));
}

Pipeline::Pipeline(std::unique_ptr<Machinery> machinery) : machinery_(std::move(machinery)) {}

Pipeline::~Pipeline() = default;

const Graph& Pipeline::graph() const { return machinery_->graph(); }

std::size_t Pipeline::slots() const { return machinery_->buffers().slots(); }

Pipeline::Machinery::Machinery(Graph graph, DeviceMemory& memory, SlotBuffers buffers,
                               const Options& options)
    : graph_(std::move(graph)), buffers_(std::move(buffers)), options_(options) {
  FrameSchedule::Options schedule = schedule_options(graph_, buffers_.slots(), options);
  teams_.resize(schedule.stages.size());
  cores_.resize(schedule.stages.size());
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    RecoveryMeans means{.policy = options.faults, .outputs = {}, .memory = &memory};
    for (std::size_t slot = 0; slot < buffers_.slots(); ++slot) {
      means.outputs.push_back(views(slot, graph_.nodes[stage].writes));
    }
    stages_.emplace_back(stage, graph_.nodes[stage], options.on_fault, std::move(means));
  }
  add_workers(schedule);
  schedule_ = std::make_unique<FrameSchedule>(std::move(schedule));
}

void Pipeline::Machinery::add_workers(const FrameSchedule::Options& schedule) {
  if (has_crews(options_)) {
    for (std::size_t index = 0; index < options_.crews.size(); ++index) {
      const Crew& crew = options_.crews[index];
      const bool several = crew.threads.size() > 1;
      for (std::size_t member = 0; member < crew.threads.size(); ++member) {
        workers_.push_back({.stages = crew.stages,
                            .name = crew.name + (several ? " " + std::to_string(member) : ""),
                            .crew = index,
                            .member = member});
      }
    }
    return;
  }
  workers_.resize(schedule.workers);
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    Worker& worker = workers_[schedule.stages[stage].worker];
    worker.name = worker.stages.empty() ? schedule.stages[stage].name : "serial";
    worker.stages.push_back(stage);
  }
}

Pipeline::Machinery::~Machinery() {
  schedule_->cancel();
  for (Worker& worker : workers_) worker.thread.reset();
  assert(schedule_->leases() == 0 && "a frame's lease outlives its pipeline");
}

std::vector<BufferView> Pipeline::Machinery::views(std::size_t slot,
                                                   const std::vector<std::size_t>& tensors) const {
  std::vector<BufferView> found;
  found.reserve(tensors.size());
  for (const std::size_t tensor : tensors) found.push_back(buffers_.view(slot, tensor));
  return found;
}

Status Pipeline::Machinery::bind_stages() {
  for (const StageNode& node : graph_.nodes) {
    for (std::size_t slot = 0; slot < buffers_.slots(); ++slot) {
      for (Stage* const stage : {node.stage.get(), node.fallback.get()}) {
        if (stage == nullptr) continue;
        const Status status = stage->bind(slot, views(slot, node.reads), views(slot, node.writes));
        if (!status.ok()) {
          return status.with_context("binding stage '" + std::string(stage->name()) + "'");
        }
      }
    }
  }
  return {};
}

// ---- the stages' threads

Status Pipeline::Machinery::start_workers() {
  for (Worker& worker : workers_) {
    std::vector<StageThread> wanted = wanted_threads(worker);
    Status status = start_worker(worker, wanted);
    const auto pinned = [](const StageThread& thread) { return !thread.cores.empty(); };
    if (!status.ok() && options_.pinning == Pinning::kPreferred &&
        std::ranges::any_of(wanted, pinned)) {
      for (StageThread& thread : wanted) thread.cores.clear();
      status = start_worker(worker, wanted);
    }
    if (!status.ok()) return status.with_context("pipeline");
    worker.threads = std::move(wanted);
  }
  note_cores();
  return {};
}

/// Notes where the stages run: those of a crew on the cores of any of its threads, which is any
/// core if one of them is not pinned.
void Pipeline::Machinery::note_cores() {
  MutexLock lock(mutex_);
  for (std::vector<int>& cores : cores_) cores.clear();
  for (const Worker& worker : workers_) {
    for (std::size_t index = 0; index < worker.stages.size(); ++index) {
      const StageThread& thread = worker.threads[has_crews(options_) ? 0 : index];
      std::vector<int>& cores = cores_[worker.stages[index]];
      const bool anywhere = worker.member > 0 && cores.empty();
      if (thread.cores.empty() || anywhere) {
        cores.clear();
        continue;
      }
      cores.insert(cores.end(), thread.cores.begin(), thread.cores.end());
    }
  }
}

/// The threads of the worker's stages. One thread runs all of them with the settings of the first
/// stage, whose core replaces the first core of the others. A crew's thread is the only one.
std::vector<Pipeline::StageThread> Pipeline::Machinery::wanted_threads(const Worker& worker) const {
  if (has_crews(options_)) {
    StageThread thread = options_.crews[worker.crew].threads[worker.member];
    if (options_.pinning == Pinning::kOff) thread.cores.clear();
    thread.realtime_priority = options_.realtime_priority.value_or(thread.realtime_priority);
    thread.threads = 1;
    return {std::move(thread)};
  }
  std::vector<StageThread> threads = options_.threads;
  if (threads.empty()) {
    for (const int core : Thread::cores()) threads.push_back({.cores = {core}});
  }
  std::vector<StageThread> wanted;
  for (const std::size_t stage : worker.stages) {
    StageThread thread = threads.empty() ? StageThread() : threads[stage % threads.size()];
    if (options_.pinning == Pinning::kOff) thread.cores.clear();
    thread.realtime_priority = options_.realtime_priority.value_or(thread.realtime_priority);
    if (!wanted.empty()) move_to(wanted.front(), thread);
    wanted.push_back(std::move(thread));
  }
  return wanted;
}

/// Starts the helpers of the worker's stages, then the thread.
Status Pipeline::Machinery::start_worker(Worker& worker, const std::vector<StageThread>& as) {
  for (std::size_t index = 0; index < as.size(); ++index) {
    const std::size_t stage = worker.stages[index];
    teams_[stage].reset();
    if (as[index].threads <= 1) continue;
    Result<std::unique_ptr<CoreTeam>> team =
        CoreTeam::start({.name = schedule_->stages()[stage].name,
                         .threads = as[index].threads,
                         .cores = as[index].cores,
                         .realtime_priority = as[index].realtime_priority});
    if (!team.ok()) return team.status();
    teams_[stage] = *std::move(team);
  }
  Result<Thread> thread = Thread::start(
      {.name = worker.name,
       .cores = own_cores(as.front()),
       .realtime_priority = as.front().realtime_priority},
      [this, &worker] { work(worker); },
      [this] {
        schedule_->cancel();
        schedule_->end_worker();
      });
  if (!thread.ok()) return thread.status();
  worker.thread.emplace(std::move(*thread));
  return {};
}

void Pipeline::Machinery::work(const Worker& worker) {
  // The kernel's default slack of 50 us would double the time of a nap; see frame_schedule.h.
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0UL, 0UL, 0UL);
  if (has_crews(options_)) {
    work_in_crew(worker);
  } else {
    work_in_order(worker);
  }
  schedule_->end_worker();
}

void Pipeline::Machinery::work_in_order(const Worker& worker) {
  const std::size_t thread = number_of(worker);
  for (std::uint64_t frame = 0;; ++frame) {
    for (const std::size_t stage : worker.stages) {
      if (!schedule_->wait_until_ready(stage, frame)) return;
      const CoreTeam::Membership member(teams_[stage].get());
      const Clock::time_point started = Clock::now();
      schedule_->finish({.stage = stage, .frame = frame, .thread = thread}, run(stage, frame),
                        started);
    }
  }
}

void Pipeline::Machinery::work_in_crew(const Worker& worker) {
  const std::size_t thread = number_of(worker);
  while (const auto turn = schedule_->await_turn(worker.crew, thread)) {
    const Clock::time_point started = Clock::now();
    schedule_->finish(*turn, run(turn->stage, turn->frame), started);
  }
}

Status Pipeline::Machinery::run(std::size_t stage, std::uint64_t frame) {
  return or_out_of_memory([&] { return stages_[stage].run(schedule_->slot_of(frame), frame); });
}

Status Pipeline::Machinery::restart(Clock::time_point deadline) {
  if (Status status = schedule_->await_end(deadline); !status.ok()) return status;
  for (Worker& worker : workers_) worker.thread.reset();
  for (RecoveringStage& stage : stages_) stage.reset();
  schedule_->reset();
  Status status = start_workers();
  if (!status.ok()) {
    schedule_->cancel();
    for (const Worker& worker : workers_) {
      if (!worker.thread) schedule_->end_worker();  // it never started
    }
  }
  return status;
}

PipelineStatistics Pipeline::Machinery::statistics() const {
  PipelineStatistics statistics = schedule_->statistics();
  MutexLock lock(mutex_);
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    StageStatistics& entry = statistics.stages[stage];
    RecoveringStage::Record record = stages_[stage].record();
    entry.cores = cores_[stage];
    entry.hangs = record.hangs;
    entry.retries = record.retries;
    entry.fallback_frames = record.fallback_frames;
    entry.device_wait_s = std::chrono::duration<double>(record.device_wait).count();
    entry.device_run_s = std::chrono::duration<double>(record.device_run).count();
    entry.fault = std::move(record.fault);
  }
  return statistics;
}

PipelineTrace Pipeline::Machinery::trace() const {
  PipelineTrace trace;
  for (const Worker& worker : workers_) trace.threads.push_back(worker.name);
  for (const FrameSchedule::Stage& stage : schedule_->stages()) {
    trace.stages.push_back({.name = stage.name, .producers = stage.producers});
  }
  schedule_->record(trace);
  return trace;
}

// ---- the caller's side

Result<InputFrame> Pipeline::acquire(Clock::time_point deadline) {
  Result<std::size_t> slot = machinery_->schedule().acquire(deadline);
  if (!slot.ok()) return slot.status();
  return InputFrame(this, *slot);
}

Result<std::uint64_t> Pipeline::submit(InputFrame frame) {
  if (frame.pipeline_ != this) {
    return Status(Code::kInvalidArgument,
                  "the frame has been submitted or belongs to another pipeline");
  }
  frame.pipeline_ = nullptr;
  return machinery_->schedule().submit(frame.slot_);
}

Result<std::uint64_t> Pipeline::submit(std::span<const std::span<const std::byte>> inputs,
                                       Clock::time_point deadline) {
  if (inputs.size() != graph().inputs.size()) {
    return Status(Code::kInvalidArgument, "a frame has " + std::to_string(inputs.size()) +
                                              " inputs, expected " +
                                              std::to_string(graph().inputs.size()));
  }
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const TensorSpec& tensor = graph().tensors[graph().inputs[index]];
    if (inputs[index].size() != tensor.bytes) {
      return Status(Code::kInvalidArgument, "input '" + tensor.name + "' has " +
                                                std::to_string(inputs[index].size()) +
                                                " bytes, expected " + std::to_string(tensor.bytes));
    }
  }
  Result<InputFrame> frame = acquire(deadline);
  if (!frame.ok()) return frame.status();
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    std::memcpy(frame->input(index).data(), inputs[index].data(), inputs[index].size());
  }
  return submit(std::move(*frame));
}

Result<OutputFrame> Pipeline::next(Clock::time_point deadline) {
  Result<FrameSchedule::Taken> taken = machinery_->schedule().next(deadline);
  if (!taken.ok()) return taken.status();
  return OutputFrame(this, taken->slot, taken->frame, taken->latency);
}

Status Pipeline::drain(Clock::time_point deadline) { return drain(submitted(), deadline); }

Status Pipeline::drain(std::uint64_t frames, Clock::time_point deadline) {
  return machinery_->schedule().drain(frames, deadline);
}

std::uint64_t Pipeline::submitted() const { return machinery_->schedule().submitted(); }

bool Pipeline::has_slot() const { return machinery_->schedule().has_slot(); }

bool Pipeline::has_next() const { return machinery_->schedule().has_next(); }

Status Pipeline::await_slot(bool or_next, Clock::time_point deadline) {
  return machinery_->schedule().await_slot(or_next, deadline);
}

Status Pipeline::await_frame(std::uint64_t frame, Clock::time_point deadline) {
  return machinery_->schedule().await_frame(frame, deadline);
}

Status Pipeline::await_end(Clock::time_point deadline) {
  return machinery_->schedule().await_end(deadline);
}

Status Pipeline::stop(Clock::time_point deadline) { return machinery_->schedule().stop(deadline); }

void Pipeline::cancel() { machinery_->schedule().cancel(); }

Status Pipeline::restart(Clock::time_point deadline) { return machinery_->restart(deadline); }

PipelineStatistics Pipeline::statistics() const { return machinery_->statistics(); }

PipelineTrace Pipeline::trace() const { return machinery_->trace(); }

// ---- leases

InputFrame::~InputFrame() {
  if (pipeline_ != nullptr) pipeline_->machinery_->schedule().abandon(slot_);
}

std::span<std::byte> InputFrame::input(std::size_t index) const {
  const BufferView& view =
      pipeline_->machinery_->buffers().view(slot_, pipeline_->graph().inputs[index]);
  return {view.data, view.bytes};
}

OutputFrame::~OutputFrame() {
  if (pipeline_ != nullptr) pipeline_->machinery_->schedule().release(slot_);
}

std::span<const std::byte> OutputFrame::output(std::size_t index) const {
  return tensor(pipeline_->graph().outputs[index]);
}

std::span<const std::byte> OutputFrame::tensor(std::size_t index) const {
  const BufferView& view = pipeline_->machinery_->buffers().view(slot_, index);
  return {view.data, view.bytes};
}

}  // namespace edgepipe
