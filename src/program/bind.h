// From one rank's program to another's: ranks of a mesh run the same instructions and differ only
// in what follows from their coordinates (one position class).
#pragma once

#include "program/program.h"

namespace fourfold::program {

/// Makes the program that of `rank`, in place: members of groups, which samples are fed, the
/// attributes of ops that say which part of a tensor they see, and where this rank's blocks of
/// buffers begin. All of it follows from the shardings of the buffers. Requires that the rank
/// belongs to the mesh of the program's rank. Cost: linear.
void bind(Program& program, Rank rank);
void bind(Bundle& bundle, Rank rank);

/// The members of a group of a rank, which are those that share all coordinates with it but those
/// on the group's axes: the place on the mesh of the first of them, by which they are known, and
/// all of them. Cost: that of the axes; linear in the members.
std::size_t first_place(const Mesh& mesh, const Group& group,
                        const std::vector<std::int64_t>& coordinates);
Ranks members_from(const Mesh& mesh, const Group& group, std::size_t first);

/// Coordinates of a rank on a mesh; throws InternalError when the mesh does not have it.
std::vector<std::int64_t> coordinates_of(const Mesh& mesh, Rank rank);

}  // namespace fourfold::program
