// A plan as what each rank does: a list of messages and group operations on boxes. Not yet
// addresses (slices.h) and not instructions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reshard/reshard_plan.h"

namespace fourfold::reshard {

enum class StepKind : std::uint8_t {
  send,     // the box to the peer
  receive,  // the box from the peer
  gather,   // all members of a group, each with its own share, come to have all shares
  copy      // from the rank's box of the source to that of the destination
};

/// Something that a rank does. Boxes are in coordinates of the whole tensor. A rank that holds the
/// box in the source sends from there, any other what it has received before in the same list.
struct Step {
  StepKind kind = StepKind::send;
  Rank peer;                  // of a message
  Box box;                    // of a message or a copy
  bool is_byte = false;       // a message of one byte: a turn, or a signal; its box is empty
  std::vector<Rank> members;  // of a gather
  std::vector<Box> shares;    // theirs; some may be empty
  bool operator==(const Step&) const = default;
};

/// If ranks of one host wait for each other.
enum class Turns : std::uint8_t {
  free,  // each rank goes through its own list; those of a host may share its port
  kept   // a transfer begins when those before it that need the same way into or out of a host have
         // ended: ranks of one host pass a byte for that
};

/// How a group comes to have all shares of a box.
enum class Gathers : std::uint8_t {
  whole,   // in one operation of its members, StepKind::gather
  by_ring  // in messages: each member passes on, to the one after it, what it got last
};

/// By rank of the job, its steps in order. Every list is part of one sequence of messages and
/// gathers, those of each transfer in turn, in which a rank forwards a chunk only after it has
/// come. So nothing blocks for ever where each rank goes through its list in order, whether a
/// message is buffered or its sender waits for the receiver: the first of the sequence that has not
/// been done is always the next of all who take part in it. The same holds where a rank receives
/// and sends at the same time, if a send waits for what `waits_for` says.
std::vector<std::vector<Step>> lower(const ReshardPlan& plan, std::span<const HostId> host_of,
                                     Turns turns, Gathers gathers = Gathers::whole);

/// By step, how many of the steps before it a message has to wait for where sends and receives are
/// under way at the same time: all up to the last one that is a gather, that receives a byte, or
/// that receives something of the message's box; for a byte that is sent, all.
std::vector<std::size_t> waits_for(std::span<const Step> steps);

/// A line for each step: "send 4 [0:2, 0:4]", "gather 4 5", "receive 1 byte from 3".
std::string to_text(std::span<const Step> steps);

}  // namespace fourfold::reshard
