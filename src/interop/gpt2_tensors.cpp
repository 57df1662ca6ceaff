#include "interop/gpt2_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::interop {
namespace {

class List {
 public:
  explicit List(bool has_biases) : has_biases_(has_biases) {}

  void add(const std::string& ours, const std::string& theirs, const Shape& our_shape,
           const Shape& their_shape) {
    tensors.push_back({ours, our_shape, theirs, their_shape});
  }
  void add_norm(const std::string& ours, const std::string& theirs, std::int64_t width) {
    add(ours + ".gain", theirs + ".weight", {width}, {width});
    add_bias(ours, theirs, {width});
  }
  /// `in` and `out` are the dims of our weight; theirs has one of each.
  void add_linear(const std::string& ours, const std::string& theirs, const Shape& in,
                  const Shape& out) {
    Shape weight = in;
    for (const std::int64_t size : out) weight.push_back(size);
    add(ours + ".weight", theirs + ".weight", weight, {in.elements(), out.elements()});
    add_bias(ours, theirs, out);
  }

  std::vector<Gpt2Tensor> tensors;

 private:
  void add_bias(const std::string& ours, const std::string& theirs, const Shape& shape) {
    add(ours + ".bias", theirs + ".bias", shape, {shape.elements()});
    tensors.back().is_zero = !has_biases_;
  }

  bool has_biases_;
};

}  // namespace

std::vector<Gpt2Tensor> gpt2_tensors(const model::GptSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, heads = spec.num_attention_heads,
                     width = hidden / heads, ffn = spec.ffn_hidden_size;
  List list(spec.bias);
  const auto same = [&](const std::string& name, const Shape& shape) {
    list.add(name, name, shape, shape);
  };
  same("wte.weight", {spec.vocab_size, hidden});
  same("wpe.weight", {spec.max_position_embeddings, hidden});
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const std::string ours = format("blocks.{}.", layer), theirs = format("h.{}.", layer);
    list.add_norm(ours + "ln1", theirs + "ln_1", hidden);
    list.add_linear(ours + "attn.qkv", theirs + "attn.c_attn", {hidden}, {3, heads, width});
    list.add_linear(ours + "attn.out", theirs + "attn.c_proj", {heads, width}, {hidden});
    list.add_norm(ours + "ln2", theirs + "ln_2", hidden);
    list.add_linear(ours + "mlp.up", theirs + "mlp.c_fc", {hidden}, {ffn});
    list.add_linear(ours + "mlp.down", theirs + "mlp.c_proj", {ffn}, {hidden});
  }
  list.add_norm("ln_f", "ln_f", hidden);
  if (!spec.tied_head)
    list.tensors.push_back({"head.weight",
                            {hidden, spec.vocab_size},
                            std::string(gpt2_head),
                            {spec.vocab_size, hidden},
                            true});
  return std::move(list.tensors);
}

std::string gpt2_full_name(const Gpt2Tensor& tensor) {
  return tensor.theirs == gpt2_head ? tensor.theirs : std::string(gpt2_prefix) + tensor.theirs;
}

std::string_view without_prefix(std::string_view name) {
  return name.starts_with(gpt2_prefix) ? name.substr(gpt2_prefix.size()) : name;
}

bool is_mask(std::string_view name) {
  const std::string_view bare = without_prefix(name);
  if (!bare.starts_with("h.")) return false;
  const std::string_view rest = bare.substr(2);
  const std::size_t dot = rest.find('.');
  const std::string_view layer = rest.substr(0, dot);
  const bool is_number = !layer.empty() && std::all_of(layer.begin(), layer.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
  if (dot == rest.npos || !is_number) return false;
  const std::string_view what = rest.substr(dot);
  return what == ".attn.bias" || what == ".attn.masked_bias";
}

std::vector<std::byte> transposed(const std::vector<std::byte>& matrix, const Shape& shape_RC,
                                  std::size_t element_bytes) {
  require(shape_RC.rank() == 2, "a matrix has two dims");
  const auto rows = static_cast<std::size_t>(shape_RC[0]),
             columns = static_cast<std::size_t>(shape_RC[1]);
  require(matrix.size() == rows * columns * element_bytes, "a matrix has the bytes of its shape");
  constexpr std::size_t tile = 64;  // both sides of a tile stay in the cache
  std::vector<std::byte> result(matrix.size());
  for (std::size_t row_0 = 0; row_0 < rows; row_0 += tile)
    for (std::size_t column_0 = 0; column_0 < columns; column_0 += tile)
      for (std::size_t row = row_0; row < std::min(rows, row_0 + tile); ++row)
        for (std::size_t column = column_0; column < std::min(columns, column_0 + tile); ++column)
          std::memcpy(result.data() + (column * rows + row) * element_bytes,
                      matrix.data() + (row * columns + column) * element_bytes, element_bytes);
  return result;
}

}  // namespace fourfold::interop
