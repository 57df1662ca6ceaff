#include "program/traffic.h"

#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "op/blocks.h"

namespace fourfold::program {
namespace {

/// A value's name without the compiler's words: "a.b/grad/raw/packed.y" is the gradient of a.b.
struct ValueName {
  std::string_view value;
  bool is_gradient = false;  // made by autodiff: "/grad", "/grad2"
  bool is_sums = false;      // "/gradient_sums" of a norm
};

ValueName value_name(std::string_view name) {
  const auto slash = name.find('/');
  if (slash == name.npos) return {name};
  const std::string_view words = name.substr(slash + 1);
  const bool is_sums = words.starts_with("gradient_sums");
  return {name.substr(0, slash), !is_sums && words.starts_with("grad"), is_sums};
}

/// The name without what stands in front of a parameter's in its gradient and moments.
std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"gradient/", "m/", "v/"})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

/// "ln1.gain" of "blocks.3.ln1.gain"; the whole name outside of blocks.
std::string_view within_block(std::string_view name) {
  constexpr std::string_view prefix = "blocks.";
  if (!name.starts_with(prefix)) return name;
  const auto dot = name.find('.', prefix.size());
  return dot == name.npos ? name : name.substr(dot + 1);
}

bool is_norm(std::string_view name) {
  return name.starts_with("ln1") || name.starts_with("ln2") || name.starts_with("ln_f");
}

bool is_embedding(std::string_view name) {
  return name.starts_with("wte") || name.starts_with("wpe") || name.starts_with("embedding") ||
         name.starts_with("positions");
}

TensorClass class_in_block(const ValueName& name, std::string_view inner) {
  // The output of a norm is the input of a product, its gradient is what that product gives.
  if (!name.is_sums && (inner == "ln1" || inner == "ln2")) return TensorClass::linear;
  if (is_norm(inner)) return TensorClass::norm;
  if (inner.ends_with(".bias")) return TensorClass::bias;
  const bool is_shared_out =
      name.is_gradient ? inner == "attn.qkv" || inner == "attn.qkv.biased" : inner == "attn.core";
  if (is_shared_out) return TensorClass::attention;
  return inner.starts_with("attn.") || inner.starts_with("mlp.") ? TensorClass::linear
                                                                 : TensorClass::other;
}

TensorClass class_of(const ValueName& name) {
  const std::string_view value = name.value;
  if (value == "result.loss_sum" || value == "result.token_count" || value.starts_with("loss"))
    return TensorClass::loss;
  if (value.starts_with("result.")) return TensorClass::update;
  if (is_embedding(value)) return TensorClass::embedding;
  if (value.starts_with("head") || value == "logits" || (value == "ln_f" && !name.is_sums))
    return TensorClass::head;
  return class_in_block(name, within_block(value));
}

/// The name of what a slice holds: the buffer's, or that of a field of the result block.
std::string_view name_of(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  if (buffer.role == BufferRole::result_block)
    for (const op::BlockField& field : op::result_fields)
      if (static_cast<std::int64_t>(field.offset_bytes) == slice.offset_bytes) return field.name;
  return buffer.name;
}

/// A collective's payload and how often a ring sends it, in parts of (n-1)/n.
struct Move {
  std::string_view kind;
  GroupId group;
  Slice tensor;  // whose buffer names the class
  std::int64_t payload_bytes = 0;
  double passes = 1;
};

std::optional<Move> move_of(const What& what) {
  if (const auto* all_reduce = std::get_if<AllReduce>(&what))
    return Move{AllReduce::name, all_reduce->group, all_reduce->data, all_reduce->data.bytes(), 2};
  if (const auto* scatter = std::get_if<ReduceScatter>(&what))
    return Move{ReduceScatter::name, scatter->group, scatter->from, scatter->from.bytes(), 1};
  if (const auto* gather = std::get_if<AllGather>(&what))
    return Move{AllGather::name, gather->group, gather->from, gather->to.bytes(), 1};
  if (const auto* exchange = std::get_if<AllToAll>(&what))
    return Move{AllToAll::name, exchange->group, exchange->from, exchange->from.bytes(), 1};
  return std::nullopt;
}

}  // namespace

std::string_view to_string(TensorClass tensor) {
  switch (tensor) {
    case TensorClass::linear:
      return "linear";
    case TensorClass::attention:
      return "attention";
    case TensorClass::norm:
      return "norm";
    case TensorClass::bias:
      return "bias";
    case TensorClass::embedding:
      return "embedding";
    case TensorClass::head:
      return "head";
    case TensorClass::loss:
      return "loss";
    case TensorClass::update:
      return "update";
    case TensorClass::other:
      return "other";
  }
  fail_internal("every class of tensor has a name");
}

TensorClass tensor_class(std::string_view buffer_name) {
  return class_of(value_name(without_prefix(buffer_name)));
}

std::vector<Traffic> traffic(const Program& program) {
  // Messages come behind all groups.
  std::map<std::tuple<std::size_t, std::string_view, TensorClass>, Traffic> entries;
  const auto count = [&](std::size_t place, std::string axis, std::string_view kind,
                         const Slice& tensor, std::int64_t payload_bytes, double passes) {
    const TensorClass which = tensor_class(name_of(program, tensor));
    Traffic& entry =
        entries.try_emplace({place, kind, which}, Traffic{std::move(axis), kind, which})
            .first->second;
    ++entry.calls;
    entry.payload_bytes += payload_bytes;
    entry.sent_bytes += passes * static_cast<double>(payload_bytes);
  };
  for (const Instruction& instruction : program.instructions) {
    if (const auto* send = std::get_if<Send>(&instruction.what))
      count(program.groups.size(), "", Send::name, send->from, send->from.bytes(), 1);
    const auto move = move_of(instruction.what);
    if (!move) continue;
    const Group& group = program.groups[move->group.index()];
    const auto ranks = static_cast<double>(group.members.size());
    count(move->group.index(), group.name, move->kind, move->tensor, move->payload_bytes,
          move->passes * (ranks - 1) / ranks);
  }
  std::vector<Traffic> list;
  for (auto& [key, entry] : entries) list.push_back(std::move(entry));
  return list;
}

}  // namespace fourfold::program
