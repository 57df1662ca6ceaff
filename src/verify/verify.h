// Proves a program before it runs, from the program alone: it believes nothing that the compiler
// claims and shares no code with it. Not a type check of the text (text.h).
//
// Rules, as Fault::rule names them; those between ranks are in verify_job.h:
//
//   bounds              Ids, shapes, slices and addresses are in range; cuts nest in whole blocks;
//                       buffers fit their region, aligned to 64 bytes.
//
//   names               Names are unique within their table.
//
//   tasks               Tasks are in order, contiguous, and cover all instructions.
//
//   groups              Members are the ranks on the line of this rank along the axis; parts of
//                       collectives are equal.
//
//   persistent-overlap  Persistent buffers share no byte, within a program or across a bundle.
//
//   implementation      Every Compute names one.
//
//   operands            Number, dtype and shape of operands are what the op's rules say;
//   parameters,
//                       moments and gradients have the type of sums (float32 beside bf16).
//
//   alias               An output shares bytes with another operand only where the op allows it, on
//                       the same range, or gathers in place.
//
//   read-only           The step block, parameters, moments and counters are written only by those
//                       who may.
//
//   layout              A blocked buffer is touched only by packs, unpacks, copies of this rank's
//                       part and collectives along its axis; the parts of any other collective are
//                       contiguous. A message carries a box of a tensor, or a field.
//
//   events              Each event is recorded once, before it is waited for.
//
//   deadlock            Streams that run concurrently never wait in a circle.
//
//   race                Accesses to common bytes, one of them a write, are ordered by a path of
//                       streams and events.
//
//   order               So are the collectives of one group, and the messages of one tag to or from
//                       one peer.
//
//   defined             Bytes are read only as their buffer last wrote them; outputs are defined at
//                       the end.
//
//   lost                A gradient or result is not overwritten before anyone reads it, and what
//                       a message brings is read by somebody.
//
//   sum                 Whoever takes a sum for more than adding to it finds it complete: each
//                       micro-batch has added the same, once. A gradient has one contribution of
//                       each micro-batch for each use of its weight in the forward pass; the total
//                       norm has each gradient once, the count of non-finite numbers each moment.
//                       No instruction reads values of two micro-batches. All of this is so of each
//                       chunk of a micro-batch too, and an instruction draws for the samples that
//                       it reads. No term of a gradient has been summed up in a type that is
//                       narrower than that of sums, but by collectives where the program says so
//                       (Program::reduce). What comes in several messages is read when all boxes of
//                       one value are there; zero stands for a missing one in padding alone.
//
//   state               Sharding and partial sums, recomputed from op/'s factor rules, match the
//                       claims.
//
//   part                Attributes and slices that depend on this rank's coordinates are what the
//                       claimed cuts give: first rows, columns, heads, samples, own blocks.
//
//   update-once         Each parameter and its moments are updated once, from a completely reduced
//                       gradient: all here, or the own rows here and then all gathered.
//
//   feeds               Each micro-batch, or chunk of it, is fed once per kind, with this rank's
//                       samples. What is fed as one kind is not read as another.
//
//   rounded             The rounded copy of a weight is written by an update that writes the
//                       weight, or made from it where a run starts; whoever reads it, and the
//                       program that follows, finds it in agreement with the weight.
//
//   bundle              Programs of a bundle agree on ranks, meshes, regions, persistent buffers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "verify/language.h"

namespace fourfold::verify {

struct Fault {
  std::string rule;
  std::optional<std::size_t> instruction;  // none: the fault is of the program as a whole
  std::string message;       // "train: forward(0): instruction 17 (contract h1, w -> p1): ..."
  std::optional<Rank> rank;  // by verify_job, which then begins the message with "rank 3: "
};

/// All faults; empty for a sound program. A fault that would make later rules meaningless ends the
/// search. Never throws for a program of any content. Cost: n log n in the accesses of the
/// instructions, per row for strided slices.
std::vector<Fault> verify(const Program& program);
/// Faults of all programs, then those between them.
std::vector<Fault> verify(const Bundle& bundle);

}  // namespace fourfold::verify
