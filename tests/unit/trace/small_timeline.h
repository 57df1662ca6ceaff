// Two ranks, one step of 100 us, an all-reduce and a message between them; numbers that can be
// added up by hand.
#pragma once

#include "trace/timeline.h"

namespace fourfold::trace {

inline Work work_of(std::size_t instruction, std::size_t stream, WorkClass work_class,
                    const std::string& name) {
  Work work;
  work.instruction = instruction;
  work.stream = stream;
  work.work_class = work_class;
  work.name = name;
  work.text = name + " a -> b";
  work.task = "forward(0)";
  return work;
}

inline RankTimeline small_rank(std::size_t rank) {
  Work gemm = work_of(0, 0, WorkClass::gemm, "contract");
  gemm.flops = 8e6;
  gemm.bytes = 4e4;
  gemm.implementation = "onednn";
  Work wait = work_of(3, 0, WorkClass::wait, "wait");
  wait.awaited = "x";
  wait.traffic = "x";
  Work reduce = work_of(4, 1, WorkClass::communication, "all_reduce");
  reduce.axis = "x";
  reduce.traffic = "x";
  reduce.bytes = 1e4;
  reduce.meeting = "x ranks 0 1 number 0";
  Work message = work_of(6, 1, WorkClass::communication, rank == 0 ? "send" : "recv");
  message.meeting = "rank 0 to 1 tag 3 number 0";
  message.bytes = 100;
  message.traffic = rank == 0 ? "to.1" : "from.0";
  RankTimeline made{rank,
                    rank == 0 ? "rank 0 (x 0)" : "rank 1 (x 1)",
                    "a \"host\"",
                    {"math", "x"},
                    {gemm, wait, reduce, message},
                    {}};
  // Rank 1 comes 10 us late to the all-reduce, which both leave at 60 us.
  const std::int64_t late_ns = rank == 0 ? 0 : 10'000;
  made.steps.push_back({5,
                        {late_ns, late_ns + 100'000},
                        {{0, {late_ns, late_ns + 40'000}},
                         {1, {late_ns + 40'000, 60'000}},
                         {2, {late_ns + 20'000, 60'000}},
                         {3, {70'000, 80'001}}}});
  return made;
}

inline Timeline small_timeline() {
  return {op::ProgramKind::train, {small_rank(0), small_rank(1)}};
}

}  // namespace fourfold::trace
