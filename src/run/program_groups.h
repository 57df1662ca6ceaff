// Which groups of ranks a bundle's collectives need, and which channels its messages.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/device_world.h"
#include "comm/group.h"
#include "program/program.h"

namespace fourfold::run {

/// A group for every stream and set of members on which two ranks or more meet. A collective runs
/// on the thread of its stream, so groups are told apart by the stream's name.
std::vector<comm::GroupSpec> groups_of(const program::Bundle& bundle);

/// Host memory that a group takes where tensors pass by way of the host: both sides of its largest
/// collective.
std::int64_t staged_bytes(const comm::GroupSpec& group);
/// What all groups of a bundle take so, and the largest message of each stream.
std::int64_t staged_bytes(const program::Bundle& bundle);

/// The channels on which a bundle's messages go.
std::vector<comm::Channel> message_channels(const program::Bundle& bundle);

/// The group of a collective, or nothing for other instructions.
const program::Group* group_of(const program::Program& program,
                               const program::Instruction& instruction);

/// True if it needs other ranks: a collective of several members, send or recv.
bool communicates(const program::Program& program, const program::Instruction& instruction);

}  // namespace fourfold::run
