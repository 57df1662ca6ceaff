// On what a job computes: the CPU or a GPU. The one place of this room that knows both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/rows.h"
#include "comm/world.h"
#include "config/config.h"
#include "machine/target.h"
#include "program/program.h"
#include "run/backend.h"

namespace fourfold::job {

struct Job;

enum class Device : std::uint8_t { cpu, cuda };

/// Settles run.device for a job of so many ranks. `auto` is a GPU where this build and this machine
/// have one, and it can do the job. No context is made on it. Errors: UserError(environment) where
/// a GPU is asked for, and this build has no CUDA or the job has several ranks;
/// UserError(bad_config) for a precision that GPUs do not compute in here.
Device choose_device(const config::Config& config, std::int64_t ranks);

/// Before a job runs, which may be planned without: UserError(environment) unless its GPU answers.
void require_device(const Job& job);

/// What the device, or this host, has left for both regions of each of so many ranks; 0 where it
/// does not say.
std::int64_t memory_share(const Job& job, std::int64_t ranks_here, std::int64_t beside_bytes);

/// UserError(does_not_fit) when the persistent and the transient region of so many ranks, and what
/// each takes of the host beside them, exceed the memory that the device and this host have left.
void check_memory(const Job& job, std::int64_t ranks_here = 1, std::int64_t beside_bytes = 0);

/// For one rank. `data_name`: where feeders read, for whoever watches a run that stands still.
std::unique_ptr<run::Backend> make_backend(const Job& job, comm::World* world = nullptr,
                                           const std::string& data_name = {});

/// "cpu", or "NVIDIA H200" and what it is: the same on all ranks of a job.
std::string device_text(const Job& job);
/// For the start-up table: the device, with what the job wants of its memory, or why it is not a
/// GPU where one might be expected.
Row device_row(const Job& job);

}  // namespace fourfold::job
