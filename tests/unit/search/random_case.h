// Random models on random machines, to be planned. Header only.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "machine/cluster.h"
#include "unit/search/planned.h"

namespace fourfold::search {

/// A machine of hosts of devices whose rates lie anywhere within two orders of magnitude.
inline machine::Cluster random_machine(std::int64_t ranks, std::mt19937& random) {
  const auto between = [&](double least, double most) {
    return least * std::pow(most / least, std::uniform_real_distribution<>(0, 1)(random));
  };
  std::vector<std::int64_t> hosts;
  for (std::int64_t n = 1; n <= ranks; ++n)
    if (ranks % n == 0) hosts.push_back(n);
  const std::int64_t of_host = hosts[random() % hosts.size()];
  machine::Cluster cluster;
  cluster.name = "random";
  cluster.device.name = "device";
  cluster.device.memory_bytes = 80e9;
  cluster.device.memory_bytes_per_s = between(20e9, 3e12);
  cluster.device.instruction_s = between(0.2e-6, 5e-6);
  const double peak = between(50e9, 300e12);
  cluster.device.rates = {{DType::f32, peak, {{1e6, between(0.05, 0.5)}, {1e10, 0.8}}}};
  const auto level = [&](const char* name, std::int64_t units) {
    const double link = between(1e9, 300e9);
    const std::int64_t ports = 1 + static_cast<std::int64_t>(random() % 4);
    cluster.levels.push_back({.name = name,
                              .units = units,
                              .latency_s = between(1e-6, 50e-6),
                              .link_bytes_per_s = link,
                              .port_bytes_per_s = link * static_cast<double>(ports),
                              .group_bytes_per_s = 0,
                              .pairs = {}});
  };
  if (of_host > 1) level("host", of_host);
  if (ranks / of_host > 1) level("network", ranks / of_host);
  return cluster;
}

template <class T>
T one_of(std::initializer_list<T> values, std::mt19937& random) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

inline void choose_model(Planned& planned, std::mt19937& random) {
  const std::int64_t heads = one_of({4, 8, 16}, random),
                     hidden = heads * one_of({8, 16, 32, 64}, random);
  planned.setup.gpt.num_attention_heads = heads;
  planned.setup.gpt.hidden_size = hidden;
  planned.setup.gpt.ffn_hidden_size = hidden * one_of({2, 4}, random);
  planned.setup.gpt.vocab_size = one_of({64, 512, 4096}, random);
  planned.setup.plan.seq_length = one_of({16, 64, 256}, random);
  planned.setup.gpt.max_position_embeddings = planned.setup.plan.seq_length;
  planned.setup.plan.global_batch_size = one_of({48, 96}, random);
  planned.setup.plan.micro_batch_size = 1;
  planned.setup.plan.checkpointing.layers = one_of({0, 1}, random);
  planned.question.spec = planned.setup.plan;
}

}  // namespace fourfold::search
