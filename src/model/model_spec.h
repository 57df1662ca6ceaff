// The families of models: which there are, and the spec of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "model/family.h"
#include "model/gpt_spec.h"
#include "model/llama_spec.h"
#include "model/unet_spec.h"
#include "model/vgg_spec.h"

/// The one list of families, in the order in which they are shown: the word of model.kind and the
/// spec. A macro, as the words name enumerators (Kind), fields (config::Config) and functions
/// (config/family.h).
#define FOURFOLD_FAMILIES(FAMILY) \
  FAMILY(gpt, GptSpec)            \
  FAMILY(llama, LlamaSpec)        \
  FAMILY(vgg, VggSpec)            \
  FAMILY(unet, UnetSpec)

namespace fourfold::model {

#define FOURFOLD_FAMILY(word, Spec) word,
enum class Kind : std::uint8_t { FOURFOLD_FAMILIES(FOURFOLD_FAMILY) };
#undef FOURFOLD_FAMILY

namespace detail {
template <class First, class... Specs>
struct AnyOf {
  using type = std::variant<Specs...>;
};
#define FOURFOLD_FAMILY(word, Spec) , Spec
using Any = AnyOf<void FOURFOLD_FAMILIES(FOURFOLD_FAMILY)>::type;
#undef FOURFOLD_FAMILY
}  // namespace detail

/// The spec of one family.
using Spec = detail::Any;

/// All families, by Kind.
#define FOURFOLD_FAMILY(word, Spec) Spec::family,
inline constexpr std::array families{FOURFOLD_FAMILIES(FOURFOLD_FAMILY)};
#undef FOURFOLD_FAMILY

/// All of Kind, in order.
#define FOURFOLD_FAMILY(word, Spec) Kind::word,
inline constexpr std::array kinds{FOURFOLD_FAMILIES(FOURFOLD_FAMILY)};
#undef FOURFOLD_FAMILY

constexpr const Family& family(Kind kind) {
  return families[static_cast<std::size_t>(kind)];
}

}  // namespace fourfold::model
