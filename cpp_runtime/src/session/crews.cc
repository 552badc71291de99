#include "session/crews.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"

namespace edgepipe {

std::vector<Pipeline::Crew> crews_for(const Manifest& manifest,
                                      std::span<const Pipeline::StageThread> threads,
                                      std::size_t devices) {
  Pipeline::Crew arm{.name = "arm", .stages = {}, .threads = {}};
  Pipeline::Crew vta{.name = "vta", .stages = {}, .threads = {}};
  std::vector<int> cores;
  for (std::size_t stage = 0; stage < manifest.stages.size(); ++stage) {
    const bool on_vta = manifest.stages[stage].kind == "vta";
    (on_vta ? vta : arm).stages.push_back(stage);
    if (threads.empty()) continue;
    const Pipeline::StageThread& own = threads[stage % threads.size()];
    if (on_vta) {
      if (vta.threads.empty()) vta.threads.push_back(own);
      continue;
    }
    for (const int core : own.cores) {
      if (std::ranges::find(cores, core) == cores.end()) cores.push_back(core);
    }
  }
  if (threads.empty()) cores = Thread::cores();
  if (arm.stages.size() <= std::max<std::size_t>(cores.size(), 1)) return {};

  for (const int core : cores) arm.threads.push_back({.cores = {core}});
  if (arm.threads.empty()) arm.threads.emplace_back();
  if (!threads.empty()) {
    const int priority = threads[arm.stages.front() % threads.size()].realtime_priority;
    for (Pipeline::StageThread& thread : arm.threads) thread.realtime_priority = priority;
  }
  std::vector<Pipeline::Crew> crews;
  crews.push_back(std::move(arm));
  if (!vta.stages.empty()) {
    // On another machine than the board, the accelerator is a simulator that runs on any core.
    const Pipeline::StageThread thread =
        vta.threads.empty() ? Pipeline::StageThread() : vta.threads.front();
    vta.threads.assign(std::clamp<std::size_t>(devices, 1, vta.stages.size()), thread);
    crews.push_back(std::move(vta));
  }
  return crews;
}

}  // namespace edgepipe
