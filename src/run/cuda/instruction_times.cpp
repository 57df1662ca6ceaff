#include "run/cuda/instruction_times.h"

#include <cmath>

namespace fourfold::run::cuda {

InstructionTimes::InstructionTimes(Device& device, std::size_t instructions)
    : device_(device), origin_(make_event(device, Device::Timing::on)) {
  for (std::vector<OwnedEvent>* list : {&before_, &behind_})
    for (std::size_t i = 0; i < instructions; ++i)
      list->push_back(make_event(device, Device::Timing::on));
}

void InstructionTimes::begin(Stream stream) {
  device_.synchronize(stream);
  device_.record(origin_.get(), stream);
  device_.synchronize(origin_.get());
  origin_ns_ = trace::now_ns();
}

void InstructionTimes::before(std::size_t instruction, Stream stream) {
  device_.record(before_[instruction].get(), stream);
}

void InstructionTimes::behind(std::size_t instruction, Stream stream) {
  device_.record(behind_[instruction].get(), stream);
}

void InstructionTimes::read(std::span<trace::Interval> intervals) const {
  const auto time_of = [&](const OwnedEvent& event) {
    constexpr double ns = 1e9;
    return origin_ns_ + std::llround(ns * device_.elapsed_s(origin_.get(), event.get()));
  };
  for (std::size_t i = 0; i < intervals.size(); ++i)
    intervals[i] = {time_of(before_[i]), time_of(behind_[i])};
}

}  // namespace fourfold::run::cuda
