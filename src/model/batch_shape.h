// What the graphs of a model are written for, and what is told of its parameters.
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::model {

/// The batch that the graphs are written for.
struct BatchShape {
  std::int64_t samples = 1;       // of a micro-batch, over all ranks
  std::int64_t length = 1;        // tokens of a sample; 1 where samples are no texts
  std::int64_t global_batch = 1;  // samples of a step
  /// Samples may hold several documents: attention may stop at their borders, and positions may
  /// restart in each. Either way "train" and "evaluate" are fed document starts. A text
  /// that is written is one document.
  bool masks_documents = false, restarts_positions = false;
  /// The training graph is written for one of so many equal chunks of a micro-batch.
  std::int64_t chunks = 1;

  /// What the training graph is written for.
  BatchShape of_chunk() const {
    BatchShape chunk = *this;
    chunk.samples = samples / chunks;
    return chunk;
  }
};

/// What the model is to make. Samples: the graphs for them are then there, and the caches they need
/// among the state: "prefill" and "decode" of a model of text, "denoise" and "bound" of one of
/// diffusion.
enum class Writes : std::uint8_t { samples, nothing };

struct ParameterCount {
  std::string name;
  std::int64_t parameters = 0;
};

}  // namespace fourfold::model
