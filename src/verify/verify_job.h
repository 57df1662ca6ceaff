// Proves a job: the programs of all ranks against each other, from the programs alone: that they
// meet in every collective and message, in an order in which nobody waits for ever. What one rank
// can prove by itself is in verify.h, and is run from here.
//
// Rules, as Fault::rule names them, besides those of verify.h:
//
//   class      Ranks of the same meshes have programs that differ only in what follows from their
//              coordinates: members, samples, attributes of rule part, offsets of own blocks,
//              peers. Ranks of meshes that exchange messages may differ in these, too, in the
//              events that order them and in where buffers lie; each kind of such programs, of any
//              number, is then proved by itself, and computes the same from the same values.
//
//   groups     Every member of a group has the same group.
//
//   matching   All members of a group issue the same sequence of collectives: kind, reduction,
//              dtype, bytes, claimed tensors, name of the stream. The k-th send of a tag meets the
//              k-th recv of it over there: same dtype, bytes, box of the tensor and micro-batch;
//              what is used for several micro-batches is of none. All boxes of a value were made as
//              one value, whoever has passed them on since, and all ranks of a mesh receive it, of
//              one kind in all micro-batches.
//
//   order      (of verify.h) So it is where a rank has one peer and the first of its class several.
//
//   deadlock   Streams that run concurrently on all ranks come to their end even if no collective
//              and no message completes before all partners have reached it.
//
//   launch     So they do where each rank begins its collectives of several members one after
//              another, in the order of its list, and each waits until the one before it is over:
//              there is one order of all collectives of a job in which every device can launch its
//              own. A device that has no room for two at a time needs no more. Messages go on
//              beside them.
//
//   bundle     All ranks have the same programs, world and meshes.
#pragma once

#include <vector>

#include "program/job.h"
#include "verify/verify.h"

namespace fourfold::verify {

/// All faults of a job; empty for a sound one. The first rank of each class is verified in full,
/// the others where they may differ from it. Classes on the same meshes must be alike where
/// messages do not set them apart, so a job may also have a class for each rank. Cost: that of
/// verify for each class, and for each other rank what it has of its own.
std::vector<Fault> verify(const program::Job& job);

/// The faults of rules groups, matching, deadlock and launch alone, and of those that they rest on
/// (binding, bundle, bounds, names, tasks): whether all ranks meet and come to their end. What each
/// of them computes is not looked at, so this is quick enough to be asked before every run.
std::vector<Fault> verify_meetings(const program::Job& job);

}  // namespace fourfold::verify
