// Carries out the steps of all ranks in one thread, as strictly as can be: a message passes when
// sender and receiver have both come to it, a gather when all members have.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/format.h"
#include "reshard/lower.h"
#include "reshard/paper_cases.h"
#include "reshard/slices.h"

namespace fourfold::reshard {

class Transport {
 public:
  using Values = std::vector<std::int32_t>;

  explicit Transport(const MeshPair& pair) : pair_(pair) {
    sources_.resize(pair.host_of.size());
    destinations_.resize(pair.host_of.size());
    Values all(static_cast<std::size_t>(pair.from.shape.elements()));
    std::iota(all.begin(), all.end(), 0);
    const Box whole_box = whole(pair.from.shape);
    for (std::size_t i = 0; i < pair.from.ranks.size(); ++i)
      sources_[pair.from.ranks[i].index()] = {pair.from.boxes[i],
                                              read(all, pair.from.boxes[i], whole_box)};
    for (std::size_t i = 0; i < pair.to.ranks.size(); ++i) {
      const Box& box = pair.to.boxes[i];
      destinations_[pair.to.ranks[i].index()] = {
          box, Values(static_cast<std::size_t>(elements(box)), -1)};
      expected_.push_back(read(all, box, whole_box));
    }
  }

  /// True where all ranks come to the end of their lists. Counts the bytes between hosts.
  bool carry_out(const std::vector<std::vector<Step>>& lists, std::int64_t element_bytes) {
    std::vector<std::size_t> at(lists.size(), 0);
    std::deque<std::size_t> ready;
    for (std::size_t rank = 0; rank < lists.size(); ++rank) ready.push_back(rank);
    while (!ready.empty()) {
      const std::size_t rank = ready.front();
      ready.pop_front();
      if (at[rank] == lists[rank].size()) continue;
      const Step& step = lists[rank][at[rank]];
      std::vector<std::size_t> taking_part{rank};
      if (step.kind == StepKind::gather) {
        taking_part.clear();
        for (const Rank member : step.members) taking_part.push_back(member.index());
      } else if (step.kind != StepKind::copy) {
        taking_part.push_back(step.peer.index());
      }
      bool is_there = true;
      for (const std::size_t one : taking_part)
        is_there =
            is_there && at[one] < lists[one].size() && fit(step, rank, lists[one][at[one]], one);
      if (!is_there) continue;
      pass(step, rank, element_bytes);
      for (const std::size_t one : taking_part) {
        ++at[one];
        ready.push_back(one);
      }
      // Whoever waited for these looks again.
      for (const std::size_t one : taking_part)
        if (at[one] < lists[one].size() && lists[one][at[one]].kind != StepKind::gather)
          ready.push_back(lists[one][at[one]].peer.index());
    }
    for (std::size_t rank = 0; rank < lists.size(); ++rank)
      if (at[rank] != lists[rank].size()) return false;
    return true;
  }

  /// Every element of every receiver, as it is in the whole tensor.
  bool is_exact() const {
    for (std::size_t i = 0; i < pair_.to.ranks.size(); ++i)
      if (destinations_[pair_.to.ranks[i].index()].values != expected_[i]) return false;
    return true;
  }
  std::int64_t bytes_between_hosts() const { return bytes_between_hosts_; }

 private:
  struct Memory {
    Box box;
    Values values;
  };

  static bool fit(const Step& one, std::size_t rank, const Step& other, std::size_t peer) {
    if (rank == peer || one.kind == StepKind::gather) return one == other;
    return one.kind != other.kind && other.kind != StepKind::gather && one.box == other.box &&
           one.is_byte == other.is_byte && one.peer.index() == peer && other.peer.index() == rank;
  }

  static Values read(const Values& values, const Box& box, const Box& local) {
    Values result;
    for (const Slice& slice : slices_of(box, local, 1))
      for (std::int64_t row = 0; row < slice.rows; ++row) {
        const auto first = values.begin() + slice.offset_bytes + row * slice.pitch_bytes;
        result.insert(result.end(), first, first + slice.row_bytes);
      }
    return result;
  }
  static void write(const Values& from, const Box& box, Memory& memory) {
    auto next = from.begin();
    for (const Slice& slice : slices_of(box, memory.box, 1))
      for (std::int64_t row = 0; row < slice.rows; ++row) {
        std::copy(next, next + slice.row_bytes,
                  memory.values.begin() + slice.offset_bytes + row * slice.pitch_bytes);
        next += slice.row_bytes;
      }
  }
  Values take(std::size_t rank, const Box& box) const {
    const Memory& source = sources_[rank];
    const bool has_it = source.box.size() == box.size() && contains(source.box, box);
    const Memory& from = has_it ? source : destinations_[rank];
    return read(from.values, box, from.box);
  }
  void count(std::size_t from, std::size_t to, std::int64_t bytes) {
    if (pair_.host_of[from] != pair_.host_of[to]) bytes_between_hosts_ += bytes;
  }

  void pass(const Step& step, std::size_t rank, std::int64_t element_bytes) {
    if (step.kind == StepKind::gather) {
      const std::size_t size = step.members.size();
      for (std::size_t i = 0; i < size; ++i) {
        const Values share = take(step.members[i].index(), step.shares[i]);
        const auto bytes = static_cast<std::int64_t>(share.size()) * element_bytes;
        for (std::size_t hop = 1; hop < size; ++hop) {
          const std::size_t to = step.members[(i + hop) % size].index();
          count(step.members[(i + hop - 1) % size].index(), to, bytes);
          write(share, step.shares[i], destinations_[to]);
        }
      }
      return;
    }
    if (step.kind == StepKind::copy) {
      write(take(rank, step.box), step.box, destinations_[rank]);
      return;
    }
    const bool is_sender = step.kind == StepKind::send;
    const std::size_t from = is_sender ? rank : step.peer.index();
    const std::size_t to = is_sender ? step.peer.index() : rank;
    count(from, to, step.is_byte ? 1 : elements(step.box) * element_bytes);
    if (!step.is_byte) write(take(from, step.box), step.box, destinations_[to]);
  }

  const MeshPair& pair_;
  std::vector<Memory> sources_, destinations_;
  std::vector<Values> expected_;
  std::int64_t bytes_between_hosts_ = 0;
};

}  // namespace fourfold::reshard
