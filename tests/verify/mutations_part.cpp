#include "verify/mutation_lists.h"

namespace fourfold::verify {
namespace {

using Job = std::vector<Bundle>;

/// Changes the op of a random Compute of that row on one rank.
template <class Row>
Mutation attribute(std::string kind, std::function<bool(const Program&, const Row&)> suits,
                   std::function<void(Row&)> change) {
  return {std::move(kind),
          {"part"},
          true,
          [suits, change](Job& job, std::mt19937& random) -> std::optional<Seeded> {
            const auto site = pick_op<Row>(
                job, random, [&](const Program& program, const Compute&, const Row& row) {
                  return suits(program, row);
                });
            if (!site) return std::nullopt;
            const Seeded result = seeded(job, *site, true);
            change(kind_at<Compute>(job, *site).op.template get<Row>());
            return result;
          }};
}
template <class Row>
bool always(const Program&, const Row&) {
  return true;
}
template <class Row>
bool drops(const Program&, const Row& row) {
  return row.rate > 0;
}
template <class Row>
bool has_part(const Program&, const Row& row) {
  return row.part.global.rank() > 0;
}

void add_attributes(std::vector<Mutation>& list) {
  list.push_back(attribute<op::Embedding>("another first row", always<op::Embedding>,
                                          [](auto& row) { row.first_row += 1; }));
  list.push_back(attribute<op::EmbeddingGradient>("another first row of a gradient",
                                                  always<op::EmbeddingGradient>,
                                                  [](auto& row) { row.first_row += 1; }));
  list.push_back(attribute<op::Attention>("another first head", drops<op::Attention>,
                                          [](auto& row) { row.first_head += 1; }));
  list.push_back(attribute<op::AttentionGradient>(
      "another number of heads", drops<op::AttentionGradient>, [](auto& row) { row.heads += 1; }));
  list.push_back(attribute<op::Dropout>("samples of another rank", drops<op::Dropout>,
                                        [](auto& row) { row.window.first += 1; }));
  list.push_back(attribute<op::Attention>("samples of another step", drops<op::Attention>,
                                          [](auto& row) { row.window.samples += 1; }));
  list.push_back(attribute<op::Dropout>(
      "another part of the mask",
      [](const Program&, const op::Dropout& row) {
        return row.rate > 0 && row.part.global.rank() > 0;
      },
      [](auto& row) { row.part.global[row.part.global.rank() - 1] += 64; }));
  list.push_back(attribute<op::LogitMax>("another first column", always<op::LogitMax>,
                                         [](auto& row) { row.first_column += 1; }));
  list.push_back(attribute<op::LogitSums>("padding taken for columns", always<op::LogitSums>,
                                          [](auto& row) { row.columns += 1; }));
  list.push_back(attribute<op::CrossEntropyGradient>("a first column where another rank's is",
                                                     always<op::CrossEntropyGradient>,
                                                     [](auto& row) { row.first_column += 1; }));
  list.push_back(attribute<op::InitNormal>("another part of the initial weights",
                                           has_part<op::InitNormal>,
                                           [](auto& row) { row.part.first[0] += 1; }));
  list.push_back(attribute<op::Digest>("another part of a digest", has_part<op::Digest>,
                                       [](auto& row) { row.part.first[0] += 1; }));
  list.push_back(attribute<op::AddPositions>("another first position", always<op::AddPositions>,
                                             [](auto& row) { row.first += 1; }));
  list.back().rules.push_back("operands");  // where the table has no row more than there are
  list.push_back({"a norm of another width",
                  {"part"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_op<op::LayerNormApply>(
                        job, random, [](const auto&...) { return true; });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, false);
                    for (const Site& each : siblings(job, *site))
                      kind_at<Compute>(job, each).op.get<op::LayerNormApply>().width *= 2;
                    return result;
                  }});
}

/// Operands of an update that are a weight of which this rank updates its own rows.
std::vector<std::size_t> own_rows_of(const Program& program, const Compute& compute) {
  std::vector<std::size_t> found;
  if (!is_update(compute.op)) return found;
  for (const op::Piece& piece : op::pieces(compute.op)) {
    const Slice& weight = compute.slices[piece.operands[5]];
    if (weight.row_bytes < program.buffer(weight.buffer).size_bytes)
      found.push_back(piece.operands[5]);
  }
  return found;
}

void add_own_blocks(std::vector<Mutation>& list) {
  list.push_back({"a weight's rows of another rank updated",
                  {"part"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_kind<Compute>(
                        job, random, [](const Program& program, const Compute& compute) {
                          return !own_rows_of(program, compute).empty();
                        });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, true);
                    auto& compute = kind_at<Compute>(job, *site);
                    const auto weights = own_rows_of(program_at(job, *site), compute);
                    Slice& rows = compute.slices[weights[random() % weights.size()]];
                    rows.offset_bytes = rows.offset_bytes == 0 ? rows.row_bytes : 0;
                    return result;
                  }});
  list.push_back({"a weight gathered from the wrong slice",
                  {"part"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_kind<AllGather>(
                        job, random, [](const Program&, const AllGather& what) {
                          return what.from[0].buffer == what.to[0].buffer;
                        });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, true);
                    Slice& rows = kind_at<AllGather>(job, *site).from[0];
                    rows.offset_bytes = rows.offset_bytes == 0 ? rows.row_bytes : 0;
                    return result;
                  }});
  list.push_back({"updated rows never gathered",
                  {"update-once"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_kind<AllGather>(
                        job, random, [](const Program&, const AllGather& what) {
                          return what.from[0].buffer == what.to[0].buffer;
                        });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, false);
                    for (const Site& each : siblings(job, *site))
                      erase_instruction(program_at(job, each), each.instruction);
                    return result;
                  }});
  list.push_back({"another rank's block copied",
                  {"part", "state", "class"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site =
                        pick_kind<Copy>(job, random, [](const Program& program, const Copy& what) {
                          const Buffer &from = program.buffer(what.from.buffer),
                                       &to = program.buffer(what.to.buffer);
                          return from.global == to.global && from.size_bytes > to.size_bytes;
                        });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, true);
                    Slice& from = kind_at<Copy>(job, *site).from;
                    from.offset_bytes = from.offset_bytes == 0 ? from.row_bytes : 0;
                    return result;
                  }});
  list.push_back({"feeds of another rank",
                  {"feeds"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_kind<Feed>(
                        job, random, [](const Program&, const Feed&) { return true; });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, true);
                    Feeds& feeds = program_at(job, *site).feeds;
                    feeds.first += feeds.first == 0 ? feeds.count : -feeds.count;
                    return result;
                  }});
}

/// Another chunk than number `chunk` of the micro-batches of a program.
std::int64_t other_chunk(const Program& program, std::int64_t chunk) {
  return (chunk + 1) % program.feeds.chunks;
}

/// Changes the window of an op as if its samples were those of another chunk.
void move_window(const Program& program, op::Op& op) {
  op::for_each_place(op, [&]<class T>(const op::Place&, T& told) {
    if constexpr (std::is_same_v<T, op::SampleWindow>) {
      const std::int64_t to = other_chunk(program, told.chunk);
      told.first += (to - told.chunk) * (program.feeds.count / program.feeds.chunks);
      told.chunk = to;
    }
  });
}

/// True if a row makes nothing but what it adds to the gradient of a weight, which has terms
/// already.
bool adds_to_gradient(const Program& program, const Compute& what) {
  const op::Operands operands = op::operands(what.op);
  return op::can_accumulate(what.op) && what.slices.size() == operands.size() &&
         operands.back().role == op::Role::update &&
         program.buffer(what.slices.back().buffer).role == BufferRole::gradient &&
         op::samples_of(what.op) == std::nullopt &&
         std::ranges::count(operands, op::Role::read, &op::Operand::role) + 1 ==
             static_cast<std::ptrdiff_t>(operands.size());
}

std::optional<Site> pick_window(Job& job, std::mt19937& random) {
  return pick_kind<Compute>(job, random, [](const Program& program, const Compute& what) {
    return program.feeds.chunks > 1 && op::samples_of(what.op);
  });
}

/// What a chunk computes with rows of another one, on all ranks alike.
void add_chunks(std::vector<Mutation>& list) {
  list.push_back({"a chunk's window: masks of another chunk",
                  {"sum"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    return on_all(job, pick_window(job, random), [&](const Site& each) {
                      move_window(program_at(job, each), kind_at<Compute>(job, each).op);
                    });
                  }});
  list.push_back({"a chunk's window: a mask that begins at the rows of another chunk",
                  {"part"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    return on_all(job, pick_window(job, random), [&](const Site& each) {
                      op::Op& op = kind_at<Compute>(job, each).op;
                      const std::int64_t chunk = op::samples_of(op)->chunk;
                      move_window(program_at(job, each), op);
                      op::for_each_place(op, [&]<class T>(const op::Place&, T& told) {
                        if constexpr (std::is_same_v<T, op::SampleWindow>) told.chunk = chunk;
                      });
                    });
                  }});
  list.push_back({"a chunk's window: samples of another chunk",
                  {"sum"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site =
                        pick_kind<Feed>(job, random, [](const Program& program, const Feed&) {
                          return program.feeds.chunks > 1;
                        });
                    return on_all(job, site, [&](const Site& each) {
                      Program& program = program_at(job, each);
                      auto& feed = kind_at<Feed>(job, each);
                      const Feed moved = feed;
                      const std::int64_t to = other_chunk(program, feed.chunk);
                      for (Instruction& instruction : program.instructions)
                        if (auto* other = std::get_if<Feed>(&instruction.what);
                            other != nullptr && other->input == moved.input &&
                            other->micro == moved.micro && other->chunk == to)
                          other->chunk = moved.chunk;
                      feed.chunk = to;
                    });
                  }});
  list.push_back({"a chunk fed twice",
                  {"feeds"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site =
                        pick_kind<Feed>(job, random, [](const Program& program, const Feed&) {
                          return program.feeds.chunks > 1;
                        });
                    return on_all(job, site, [&](const Site& each) {
                      auto& feed = kind_at<Feed>(job, each);
                      feed.chunk = other_chunk(program_at(job, each), feed.chunk);
                    });
                  }});
  list.push_back({"what a chunk adds to the gradient of a weight left out",
                  {"sum"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_kind<Compute>(
                        job, random, [](const Program& program, const Compute& what) {
                          return program.feeds.chunks > 1 && adds_to_gradient(program, what);
                        });
                    return on_all(job, site, [&](const Site& each) { erase_at(job, each); });
                  }});
}

/// Changes a blocked buffer that a pack fills, on all ranks.
std::function<std::optional<Seeded>(Job&, std::mt19937&)> blocked(
    const std::function<bool(const Program&, Buffer&)>& change) {
  return [change](Job& job, std::mt19937& random) -> std::optional<Seeded> {
    const auto site = pick_kind<Pack>(job, random, [&](const Program& program, const Pack& what) {
      Buffer copy = program.buffer(what.to.buffer);
      const Mesh& mesh = program.meshes[copy.sharding.mesh.index()];
      return mesh.axes[copy.blocked->axis.index()].size > 1 && change(program, copy);
    });
    if (!site) return std::nullopt;
    const Seeded result = seeded(job, *site, false);
    for (const Site& each : siblings(job, *site)) {
      Program& program = program_at(job, each);
      change(program, program.buffers[kind_at<Pack>(job, each).to.buffer.index()]);
    }
    return result;
  };
}

/// True if an op after an instruction has the slice among its operands.
bool is_read_by_op(const Program& program, std::size_t after, const Slice& slice) {
  return std::any_of(program.instructions.begin() + static_cast<std::ptrdiff_t>(after),
                     program.instructions.end(), [&](const Instruction& instruction) {
                       const auto* what = std::get_if<Compute>(&instruction.what);
                       return what != nullptr &&
                              std::ranges::find(what->slices, slice) != what->slices.end();
                     });
}

void add_layouts(std::vector<Mutation>& list) {
  list.push_back({"a buffer blocked along another axis",
                  {"layout"},
                  true,
                  blocked([](const Program& program, Buffer& buffer) {
                    const Mesh& mesh = program.meshes[buffer.sharding.mesh.index()];
                    const AxisId old = buffer.blocked->axis;
                    for (std::size_t i = 0; i < mesh.axes.size(); ++i)
                      if (AxisId(i) != old && mesh.axes[i].size == mesh.axes[old.index()].size) {
                        buffer.blocked->axis = AxisId(i);
                        return true;
                      }
                    return false;
                  })});
  list.push_back(
      {"a plain buffer taken for a blocked one",
       {"layout"},
       true,
       [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
         const auto site =
             pick_kind<Pack>(job, random, [](const Program& program, const Pack& what) {
               const Buffer& to = program.buffer(what.to.buffer);
               return program.buffer(what.from.buffer).size_bytes == to.size_bytes &&
                      program.meshes[to.sharding.mesh.index()].axes[to.blocked->axis.index()].size >
                          1;
             });
         if (!site) return std::nullopt;
         const Seeded result = seeded(job, *site, false);
         for (const Site& each : siblings(job, *site)) {
           const Pack pack = kind_at<Pack>(job, each);
           instruction_at(job, each).what = Copy{pack.from, pack.to};
         }
         return result;
       }});
  list.push_back({"a blocked buffer read by an op",
                  {"layout"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick(job, random, [](const Program& program, std::size_t at) {
                      const auto* what = std::get_if<Unpack>(&program.instructions[at].what);
                      return what != nullptr && is_read_by_op(program, at, what->to) &&
                             program.buffer(what->from.buffer).size_bytes ==
                                 program.buffer(what->to.buffer).size_bytes;
                    });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, false);
                    for (const Site& each : siblings(job, *site)) {
                      Program& program = program_at(job, each);
                      const Unpack unpack = kind_at<Unpack>(job, each);
                      for (std::size_t i = each.instruction + 1; i < program.instructions.size();
                           ++i)
                        if (auto* what = std::get_if<Compute>(&program.instructions[i].what))
                          for (Slice& slice : what->slices)
                            if (slice == unpack.to) slice = unpack.from;
                    }
                    return result;
                  }});
  list.push_back({"a pack dropped",
                  {"defined"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick(job, random, [](const Program& program, std::size_t at) {
                      const auto* pack = std::get_if<Pack>(&program.instructions[at].what);
                      if (pack == nullptr) return false;
                      for (std::size_t i = 0; i < at; ++i)
                        if (const auto* other = std::get_if<Pack>(&program.instructions[i].what);
                            other != nullptr && other->to.buffer == pack->to.buffer)
                          return false;
                      return true;
                    });
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, false);
                    for (const Site& each : siblings(job, *site))
                      erase_instruction(program_at(job, each), each.instruction);
                    return result;
                  }});
}

}  // namespace

void add_part_mutations(std::vector<Mutation>& list) {
  add_attributes(list);
  add_own_blocks(list);
  add_chunks(list);
  add_layouts(list);
}

}  // namespace fourfold::verify
