// A file of golden/data: training steps by PyTorch. Header only.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "support/small_run.h"

namespace fourfold::test {

class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(checkpoint::SafetensorsFile::open(
            std::string(FOURFOLD_SOURCE_DIR) + "/tests/golden/data/gpt-" + name + ".safetensors")) {
  }

  template <class T>
  std::vector<T> tensor(const std::string& name) const {
    for (const auto& info : file_.header().tensors())
      if (info.name == name) {
        require(info.dtype == dtype_of<T>, "the golden tensor has the expected type");
        std::vector<T> values(static_cast<std::size_t>(info.shape.elements()));
        file_.read(info, std::as_writable_bytes(std::span(values)));
        return values;
      }
    throw InternalError("there is no golden tensor " + name);
  }
  std::string setting(const std::string& key) const {
    for (const auto& [name, value] : file_.header().metadata())
      if (name == key) return value;
    throw InternalError("there is no golden setting " + key);
  }
  double number(const std::string& key) const { return std::stod(setting(key)); }
  std::int64_t integer(const std::string& key) const { return std::stoll(setting(key)); }
  bool flag(const std::string& key) const { return setting(key) == "true"; }

  /// With micro-batches so that there are `accumulation` of them.
  RunSetup run_setup(DType compute, std::int64_t accumulation) const {
    RunSetup setup;
    setup.gpt = {.num_layers = integer("model.num_layers"),
                 .num_attention_heads = integer("model.num_attention_heads"),
                 .hidden_size = integer("model.hidden_size"),
                 .ffn_hidden_size = integer("model.ffn_hidden_size"),
                 .max_position_embeddings = integer("model.max_position_embeddings"),
                 .vocab_size = integer("model.vocab_size"),
                 .dropout = 0,
                 .bias = flag("model.bias"),
                 .tied_head = flag("model.tied_head")};
    const std::int64_t batch = integer("train.global_batch_size");
    setup.plan = {.global_batch_size = batch,
                  .micro_batch_size = batch / accumulation,
                  .seq_length = integer("data.seq_length"),
                  .compute = compute};
    setup.optimizer = {.beta1 = number("optimizer.beta1"),
                       .beta2 = number("optimizer.beta2"),
                       .epsilon = number("optimizer.epsilon"),
                       .weight_decay = number("optimizer.weight_decay"),
                       .grad_clip = number("optimizer.grad_clip")};
    return setup;
  }

 private:
  checkpoint::SafetensorsFile file_;
};

}  // namespace fourfold::test
