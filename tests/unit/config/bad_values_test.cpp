// Every way to get a configuration wrong that we have met or thought of: what is said, and where.
#include <ostream>
#include <string>
#include <vector>

#include "support/print_words.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

struct Case {
  std::string text;                   // of the file, or of --set when it begins with "--set "
  std::vector<std::string> expected;  // each stands in the report
};

void PrintTo(const Case& c, std::ostream* out) {
  test::print_words(c.text, *out);
}

class BadValue : public testing::TestWithParam<Case> {};

/// A file that is right, to which --set cases are added.
const char* const good = "data: {format: synthetic}\nmodel: {vocab_size: 64}\n";

TEST_P(BadValue, is_the_only_problem_reported_with_place_and_advice) {
  const std::string& text = GetParam().text;
  const bool has_data = text.find("data: {") != std::string::npos;
  const std::string report = text.starts_with("--set ")
                                 ? problems_of(good, {text.substr(6)})
                                 : problems_of(text + (has_data ? "" : "\ndata: {path: x.txt}\n"));
  for (const std::string& expected : GetParam().expected)
    EXPECT_NE(report.find(expected), std::string::npos) << "expected: " << expected << "\n"
                                                        << report;
  EXPECT_EQ(count_problems(report), 1U) << report;
}

const std::vector<Case> integers = {
    {"model: {num_layers: four}",
     {"a.yaml:1:21: error: model.num_layers: expected whole number from 1 to 1000; got 'four'"}},
    {"model:\n  num_layers: 0", {"a.yaml:2:15:", "from 1 to 1000; got '0'"}},
    {"model:\n  num_layers: -3", {"a.yaml:2:15:", "got '-3'"}},
    {"model:\n  num_layers: 1001", {"got '1001'"}},
    {"model:\n  num_layers: 4.5", {"got '4.5', which is not whole"}},
    {"model:\n  num_layers: 010", {"'010', which has a leading zero", "write 10"}},
    {"model:\n  num_layers: 00", {"'00', which has a leading zero", "write 0"}},
    {"model:\n  num_layers: \"8\"",
     {"a.yaml:2:15:", "got '8' in quotes", "remove the quotes", "^~~"}},
    {"model:\n  num_layers: '8'", {"got '8' in quotes", "remove the quotes"}},
    {"model:\n  num_layers: 0x10", {"'0x10', which is not decimal"}},
    {"model:\n  num_layers: 4K",
     {"'4K', which has the suffix 'K'", "suffixes are k (thousand), M (million)"}},
    {"model:\n  num_layers: 4 GiB", {"got '4 GiB'"}},
    {"model:\n  num_layers: 1__0", {"got '1__0'"}},
    {"model:\n  num_layers: 1_", {"got '1_'"}},
    {"model:\n  num_layers: 1,000", {"got '1,000'"}},
    {"model:\n  num_layers: 1e", {"got '1e'"}},
    {"model:\n  num_layers: .", {"got '.'"}},
    {"model:\n  num_layers: -", {"'- item' is not allowed here"}},
    {"model:\n  num_layers: nan", {"got 'nan'"}},
    {"model:\n  num_layers: true", {"got 'true'"}},
    {"model:\n  num_layers: [4]", {"a.yaml:2:15:", "got a list"}},
    {"model:\n  num_layers: {a: 4}", {"got a map"}},
    {"model:\n  num_layers:",
     {"a.yaml:2:3: error: model.num_layers has no value", "leave it out for the default (4)"}},
    {"model:\n  num_layers: ~", {"model.num_layers has no value"}},
    {"model:\n  num_layers: null", {"model.num_layers has no value"}},
    {"train:\n  steps: 0", {"train.steps: expected whole number from 1 to 4294967295; got '0'"}},
    {"train:\n  steps: 5B", {"got '5B'"}},
    {"train:\n  steps: 1e30", {"'1e30', which does not fit 64 bits"}},
    {"train:\n  steps: 99999999999999999999", {"which does not fit 64 bits"}},
    {"train:\n  steps: 1e-999999999999", {"which is not whole"}},
    {"run:\n  seed: -1", {"run.seed: expected whole number at least 0; got '-1'"}},
    {"run:\n  seed: 9223372036854775808", {"which does not fit 64 bits"}},
    {"run:\n  threads: 5000", {"run.threads: expected whole number from 0 to 4096; got '5000'"}},
    {"log:\n  interval: 0", {"log.interval: expected whole number from 1"}},
    {"eval:\n  batches: 0", {"eval.batches"}},
    {"eval:\n  interval_steps: -1", {"eval.interval_steps: expected whole number from 0"}},
    {"sample:\n  tokens: -5", {"sample.tokens: expected whole number from 0"}},
    {"sample:\n  top_k: 1.5", {"sample.top_k", "not whole"}},
};

const std::vector<Case> numbers = {
    {"optimizer:\n  lr: fast",
     {"a.yaml:2:7: error: optimizer.lr: expected number above 0; got 'fast'"}},
    {"optimizer:\n  lr: 0", {"expected number above 0; got '0'"}},
    {"optimizer:\n  lr: -1e-3", {"got '-1e-3'"}},
    {"optimizer:\n  lr: .nan", {"got '.nan'"}},
    {"optimizer:\n  lr: .inf", {"got '.inf'"}},
    {"optimizer:\n  lr: inf", {"got 'inf'"}},
    {"optimizer:\n  lr: 1e400", {"'1e400', which is outside the range of double precision"}},
    {"optimizer:\n  lr: 1e-400", {"'1e-400', which is outside the range of double precision"}},
    {"optimizer:\n  lr: '1e-3'", {"got '1e-3' in quotes", "remove the quotes"}},
    {"optimizer:\n  lr: 1k", {"'1k', which has the suffix 'k'", "suffixes are for whole numbers"}},
    {"optimizer:\n  lr: 01.5", {"which has a leading zero", "write 1.5"}},
    {"optimizer:\n  lr: 0x1p3", {"which is not decimal"}},
    {"optimizer:\n  lr: 1e-3e", {"got '1e-3e'"}},
    {"optimizer:\n  lr: 1.2.3", {"got '1.2.3'"}},
    {"optimizer:\n  lr: [1]", {"got a list"}},
    {"optimizer:\n  weight_decay: -0.1", {"expected number at least 0; got '-0.1'"}},
    {"optimizer:\n  grad_clip: none",
     {"optimizer.grad_clip: expected number at least 0; got 'none'"}},
    {"optimizer:\n  eps: 0", {"optimizer.eps: expected number above 0"}},
    {"optimizer:\n  betas: 0.9",
     {"optimizer.betas: expected list of two numbers at least 0 and below 1; got '0.9'",
      "write two numbers in brackets: [0.9, 0.95]"}},
    {"optimizer:\n  betas: [0.9]", {"got a list", "write two numbers in brackets"}},
    {"optimizer:\n  betas: [0.9, 0.95, 0.99]", {"got a list"}},
    {"optimizer:\n  betas: [0.9, 1.0]", {"a.yaml:2:16:", "got '1.0'"}},
    {"optimizer:\n  betas: [0.9, \"0.95\"]", {"a.yaml:2:16:", "remove the quotes"}},
    {"optimizer:\n  betas: [0.9 0.95]", {"got a list"}},
    {"optimizer:\n  betas: \"[0.9, 0.95]\"", {"got '[0.9, 0.95]' in quotes"}},
    {"model:\n  dropout: 1", {"model.dropout: expected number at least 0 and below 1; got '1'"}},
    {"model:\n  dropout: -0.1", {"got '-0.1'"}},
    {"model:\n  layer_norm_epsilon: 0", {"expected number above 0"}},
    {"model:\n  init_stddev: 0", {"expected number above 0"}},
    {"lr_schedule:\n  min_lr: -1", {"expected number at least 0"}},
    {"data: {path: x, split: 1}", {"data.split: expected number above 0 and below 1; got '1'"}},
    {"data: {path: x, split: 90%}", {"got '90%'"}},
    {"sample:\n  temperature: -1", {"sample.temperature"}},
};

const std::vector<Case> words = {
    {"model:\n  bias: yes",
     {"a.yaml:2:9: error: model.bias: expected true or false; got 'yes'", "write true"}},
    {"model:\n  bias: no", {"write false"}},
    {"model:\n  bias: on", {"write true"}},
    {"model:\n  bias: Off", {"write false"}},
    {"model:\n  bias: True", {"write true"}},
    {"model:\n  bias: FALSE", {"write false"}},
    {"model:\n  bias: 1", {"write true"}},
    {"model:\n  bias: \"true\"", {"got 'true' in quotes", "remove the quotes"}},
    {"model:\n  bias: maybe", {"expected true or false; got 'maybe'"}},
    {"model:\n  kind: gtp",
     {"model.kind: expected gpt, vgg or unet; got 'gtp'", "did you mean 'gpt'?"}},
    {"model:\n  kind: llama", {"model.kind: expected gpt, vgg or unet; got 'llama'"}},
    {"data: {path: x, format: txet}",
     {"data.format: expected text, megatron, llmc, pictures or synthetic; got 'txet'",
      "did you mean 'text'?"}},
    {"data: {path: x, tokenizer: bpe}",
     {"data.tokenizer: expected char, byte, sentencepiece or gpt2; got 'bpe'"}},
    {"data: {path: x, tokenizer: gpt2}",
     {"data.tokenizer = gpt2 needs data.tokenizer_path", "vocab.json and merges.txt"}},
    {"data: {path: x, tokenizer_path: y.model}",
     {"data.tokenizer_path is set", "set data.tokenizer = sentencepiece"}},
    {"optimizer:\n  name: adagrad", {"optimizer.name: expected adamw or sgd; got 'adagrad'"}},
    {"optimizer:\n  name: sgd\n  betas: [0.8, 0.9]",
     {"optimizer.betas is a setting of adamw, but optimizer.name = sgd",
      "leave optimizer.betas out, or set optimizer.name = adamw"}},
    {"optimizer:\n  name: sgd\n  eps: 1e-6", {"optimizer.eps is a setting of adamw"}},
    {"optimizer:\n  momentum: 0.5", {"optimizer.momentum is a setting of sgd"}},
    {"optimizer:\n  nesterov: true", {"optimizer.nesterov is a setting of sgd"}},
    {"optimizer:\n  name: sgd\n  momentum: 1", {"optimizer.momentum"}},
    {"optimizer:\n  name: sgd\n  nesterov: 2", {"optimizer.nesterov"}},
    {"optimizer:\n  name: AdamW", {"did you mean 'adamw'?"}},
    {"lr_schedule:\n  kind: cos",
     {"expected constant, linear, cosine or warmup_stable_decay; got 'cos'"}},
    {"lr_schedule:\n  kind: warmup-stable-decay", {"did you mean 'warmup_stable_decay'?"}},
    {"precision:\n  compute: fp16",
     {"precision.compute: expected fp32, fp64 or bf16; got 'fp16'", "got 'fp16'"}},
    {"optimizer:\n  shard: grads", {"optimizer.shard: expected none or states; got 'grads'"}},
    {"optimizer:\n  shard: true", {"optimizer.shard: expected none or states; got 'true'"}},
    {"kernels: fast", {"a.yaml:1:10: error: kernels: expected auto or reference; got 'fast'"}},
    {"kernels: {gemm: fast}", {"kernels: expected auto or reference; got a map"}},
    {"memory:\n  activation_checkpointing: some",
     {"expected none, selective, full or 'every N'; got 'some'"}},
    {"memory:\n  activation_checkpointing: ful", {"did you mean 'full'?"}},
    {"memory:\n  activation_checkpointing: select", {"did you mean 'selective'?"}},
    {"memory:\n  activation_checkpointing: every", {"say of how many blocks: every 2"}},
    {"memory:\n  activation_checkpointing: every 0", {"N is a number of blocks, at least 1"}},
    {"memory:\n  activation_checkpointing: every two", {"N is a number of blocks, at least 1"}},
    {"memory:\n  activation_checkpointing: every 2 3", {"got 'every 2 3'"}},
    {"memory:\n  activation_checkpointing: true", {"got 'true'"}},
    {"run:\n  name: [a]", {"run.name: expected text; got a list"}},
    {"run:\n  name: a/b", {"run.name = 'a/b' cannot name a folder"}},
    {"run:\n  name: \"\"", {"run.name = '' cannot name a folder"}},
    {"run:\n  dir: \"\"", {"run.dir is empty"}},
    {"sample:\n  prompt:", {"sample.prompt has no value"}},
    {"sample:\n  prompt: {a: b}", {"sample.prompt: expected text; got a map", "in quotes"}},
};

const std::vector<Case> grids = {
    {"parallel:\n  strategy: zero3",
     {"parallel.strategy: expected axonn, atp, megatron or fsdp; got 'zero3'"}},
    {"parallel:\n  strategy: Megatron", {"did you mean 'megatron'?"}},
    {"parallel:\n  tensor: 8",
     {"a.yaml:2:11: error: 'parallel.tensor' is a section; got '8'",
      "section 'parallel.tensor' has: x, y, z"}},
    {"parallel:\n  tensor: [2, 2, 2]", {"'parallel.tensor' is a section; got a list"}},
    {"parallel:\n  tensor: {x: 0}",
     {"a.yaml:2:15: error: parallel.tensor.x: expected whole number from 1 to 65536; got '0'"}},
    {"parallel:\n  tensor: {y: auto}", {"parallel.tensor.y: expected whole number from 1"}},
    {"parallel:\n  tensor: {z: 65537}", {"got '65537'"}},
    {"parallel:\n  data: 0",
     {"parallel.data: expected whole number from 1 to 65536, or auto; got '0'"}},
    {"parallel:\n  data: all", {"or auto; got 'all'"}},
    {"parallel:\n  data: \"auto\"", {"got 'auto' in quotes", "remove the quotes"}},
    {"parallel:\n  data: 1.5", {"got '1.5', which is not whole"}},
    {"parallel:\n  data:", {"parallel.data has no value", "leave it out for the default (auto)"}},
    {"train:\n  micro_batch_size: none", {"train.micro_batch_size: expected whole number from 1"}},
    {"parallel:\n  order: x",
     {"parallel.order: expected list of x, y, z and data in any order; got 'x'",
      "write a list: for example [x, y, z, data]"}},
    {"parallel:\n  order: [x, y, z]", {"a.yaml:2:10:", "which lacks 'data'", "for example [x,"}},
    {"parallel:\n  order: [x, y, z, data, x]",
     {"a.yaml:2:26:", "got 'x', which stands in the list already"}},
    {"parallel:\n  order: [x, y, w, data]", {"a.yaml:2:17:", "in any order; got 'w'"}},
    {"parallel:\n  order: [x, y, z, [data]]", {"a.yaml:2:20:", "got a list"}},
    {"parallel:\n  shard_sequence: yes", {"parallel.shard_sequence: expected true or false"}},
    {"run:\n  watchdog_s: -1", {"run.watchdog_s: expected number at least 0; got '-1'"}},
    {"run:\n  watchdog_s: 30s", {"run.watchdog_s: expected number at least 0; got '30s'"}},
};

const std::vector<Case> structure = {
    {"model: 4",
     {"a.yaml:1:8: error: 'model' is a section; got '4'", "section 'model' has: kind, num_layers"}},
    {"model: [num_layers]", {"'model' is a section; got a list"}},
    {"modle:\n  num_layers: 4",
     {"a.yaml:1:1: error: unknown key 'modle'", "did you mean 'model'?"}},
    {"num_layers: 4", {"unknown key 'num_layers'", "did you mean 'model.num_layers'?"}},
    {"model.num_layers: 4",
     {"a.yaml:1:1: error: 'model.num_layers' holds a dot", "write 'model:' and below it"}},
    {"train:\n  lr: 1e-3",
     {"a.yaml:2:3: error: unknown key 'train.lr'", "did you mean 'optimizer.lr'?"}},
    {"train:\n  batch_size: 8", {"did you mean 'train.global_batch_size'?"}},
    {"eval:\n  interval: 8", {"did you mean 'eval.interval_steps'?"}},
    {"model:\n  tensor_model_parallel_size: 8", {"did you mean 'parallel.tensor.x'?"}},
    {"G_intra_c: 8", {"did you mean 'parallel.tensor.y'?"}},
    {"parallel:\n  pipeline: {stages: 2}", {"a step is not cut into pipeline stages"}},
    {"parallel:\n  tensor: {w: 2}",
     {"a.yaml:2:12: error: unknown key 'parallel.tensor.w'", "did you mean"}},
    {"parallel:\n  tensr: {x: 2}",
     {"a.yaml:2:3: error: unknown key 'parallel.tensr'", "did you mean 'parallel.tensor'?"}},
    {"tensor: {x: 2}", {"unknown key 'tensor'", "did you mean 'parallel.tensor'?"}},
    {"parallel.tensor: {x: 2}",
     {"a.yaml:1:1: error: 'parallel.tensor' holds a dot",
      "write 'parallel:' and below it, indented, 'tensor: ...'"}},
    {"parallel:\n  tensor.x: 2",
     {"a.yaml:2:3: error: 'tensor.x' holds a dot",
      "'parallel:' and below it, indented, 'tensor:' and below it, indented, 'x: ...'"}},
    {"extends: base.yaml", {"base.yaml cannot be read", "the folder of the file that extends it"}},
    {"zzzzzzzz: 1", {"unknown key 'zzzzzzzz'", "the top level has: run, model,"}},
    {"model:\n  zzzzzzzzzzzz: 1", {"section 'model' has: kind, num_layers"}},
    {"model:\n  num_layers: 4\n  num_layers: 5",
     {"a.yaml:3:3: error: duplicate key 'num_layers'", "line 2 already"}},
    {"data: {path: x}\nmodel:\n\tnum_layers: 4", {"a.yaml:3:1: error: tabs are not allowed"}},
    {"data: {path: x}\nmodel: {num_layers: 4", {"a.yaml:2:8: error: '{' is never closed"}},
    {"- data: {path: x}", {"a.yaml:1:1: error: expected sections with keys; got a list"}},
};

const std::vector<Case> sets = {
    {"--set model.num_layers=four",
     {"--set #1: error: model.num_layers: expected whole number",
      "| model.num_layers=four\n      |                  ^~~~"}},
    {"--set model.num_layer=4",
     {"--set #1: error: unknown key 'model.num_layer'",
      "^~~~~~~~~~~~~~~ did you mean 'model.num_layers'?"}},
    {"--set modle.num_layers=4", {"did you mean 'model.num_layers'?"}},
    {"--set n_embd=4", {"did you mean 'model.hidden_size'?"}},
    {"--set train.steps", {"--set #1: error: expected key=value", "for example train.steps=100"}},
    {"--set =4", {"unknown key ''"}},
    {"--set train.steps=", {"train.steps has no value"}},
    {"--set train.steps=null", {"train.steps has no value"}},
    {"--set train.steps=[1", {"--set #1: error: '[' is never closed"}},
    {"--set train=5", {"'train' is a section; got '5'"}},
    {"--set train=", {"'train' is a section; got nothing"}},
    {"--set train={stpes: 5}", {"unknown key 'train.stpes'", "did you mean 'train.steps'?"}},
    {"--set optimizer.betas=[0.9, 2]",
     {"| optimizer.betas=[0.9, 2]\n      |                       ^"}},
    {"--set train.steps=&a 5", {"anchors (&name) are not allowed"}},
    {"--set sample.prompt=a: b", {"sample.prompt: expected text; got a map", "in quotes"}},
};

const std::vector<Case> relations = {
    {"model:\n  hidden_size: 130\n  num_attention_heads: 4",
     {"a.yaml:3:24: error: model.hidden_size = 130 is not divisible by model.num_attention_heads = "
      "4",
      "choices that work: model.num_attention_heads = 1, 2, 5, 10, 13, 26; or model.hidden_size = "
      "128 or 132"}},
    {"model: {hidden_size: 30}", {"a.yaml:1:22:", "model.num_attention_heads = 4"}},
    {"train:\n  global_batch_size: 12\n  micro_batch_size: 5",
     {"a.yaml:3:21: error: train.global_batch_size = 12 is not divisible by train.micro_batch_size "
      "= 5",
      "train.micro_batch_size = 1, 2, 3, 4, 6, 12; or train.global_batch_size = 10 or 15"}},
    {"train:\n  global_batch_size: 4\n  micro_batch_size: 8", {"or train.global_batch_size = 8"}},
    {"model: {max_position_embeddings: 32}\ndata: {path: x, seq_length: 64}",
     {"a.yaml:2:29: error: data.seq_length = 64 is larger than model.max_position_embeddings = 32",
      "set data.seq_length to at most 32, or model.max_position_embeddings to at least 64"}},
    {"train: {steps: 10}\nlr_schedule: {warmup_steps: 20, kind: constant}",
     {"a.yaml:2:29: error: lr_schedule.warmup_steps = 20 is larger than train.steps = 10"}},
    {"lr_schedule: {warmup_steps: 20, decay_steps: 10}",
     {"is larger than lr_schedule.decay_steps = 10"}},
    {"train: {steps: 10}\nlr_schedule: {kind: warmup_stable_decay, warmup_steps: 5, decay_steps: "
     "6}",
     {"together longer than train.steps = 10", "train.steps to at least 11"}},
    {"optimizer: {lr: 1e-4}\nlr_schedule: {min_lr: 1e-3}",
     {"a.yaml:2:23: error: lr_schedule.min_lr = 0.001 is larger than optimizer.lr = 0.0001"}},
    {"data: {format: synthetic}", {"a.yaml:1:16:", "model.vocab_size must say", "for example 256"}},
    {"data: {format: synthetic}\nmodel: {vocab_size: 9}\nsample: {tokens: 9}",
     {"set sample.tokens = 0"}},
    {"data: {format: text}",
     {"a.yaml:1:16: error: data.format = text needs data.path", "data.format = synthetic"}},
    {"data: {tokenizer: byte}\nmodel: {num_layers: 2}", {"data.format = text needs data.path"}},
    {"data: {path: x, tokenizer: byte}\nmodel: {vocab_size: 65}",
     {"data.tokenizer = byte has 256 tokens"}},
    {"memory: {activation_checkpointing: every 5}",
     {"memory.activation_checkpointing = every 5 is more than model.num_layers = 4", "1, 2, 4"}},
    {"train: {global_batch_size: 12, micro_batch_size: 2}\nparallel: {tensor: {z: 4}}",
     {"a.yaml:2:24: error: train.global_batch_size = 12 is not divisible by train.micro_batch_size "
      "x parallel.tensor.z = 2 x 4 = 8",
      "choices that work: train.micro_batch_size = 1, 3; or train.global_batch_size = 8 or 16"}},
    {"train: {global_batch_size: 12, micro_batch_size: 2}\nparallel: {data: 2, tensor: {z: 2}}",
     {"train.micro_batch_size x parallel.data x parallel.tensor.z = 2 x 2 x 2 = 8",
      "train.micro_batch_size = 1, 3; or"}},
    {"train: {global_batch_size: 12}\nparallel: {data: 5}",
     {"train.global_batch_size = 12 is not divisible by parallel.data x parallel.tensor.z = 5 x 1 "
      "= 5",
      "choices that work: train.global_batch_size = 10 or 15"}},
    {"parallel: {strategy: megatron, tensor: {y: 2}}",
     {"a.yaml:1:44: error: parallel.strategy = megatron has parallel.tensor.y = 1, not 2",
      "parallel.strategy = axonn"}},
    {"parallel: {strategy: megatron, tensor: {z: 2}}", {"has parallel.tensor.z = 1, not 2"}},
    {"parallel: {strategy: fsdp, tensor: {x: 2}}",
     {"parallel.strategy = fsdp has parallel.tensor.x = 1, not 2"}},
    {"parallel: {strategy: fsdp, tensor: {y: 2}}", {"has parallel.tensor.y = 1, not 2"}},
    {"parallel: {tensor: {x: 2}, shard_sequence: true}",
     {"a.yaml:1:44: error: parallel.shard_sequence = true does not go with parallel.strategy = "
      "axonn",
      "set parallel.strategy = megatron, or parallel.shard_sequence = false"}},
    {"parallel: {strategy: fsdp, shard_sequence: true}", {"parallel.strategy = fsdp"}},
    {"precision: {residual: bf16}",
     {"a.yaml:1:23: error: precision.residual = bf16 does not go with precision.compute = fp32",
      "leave precision.residual out, or set it to fp32"}},
    {"precision: {compute: bf16, residual: fp64}",
     {"a.yaml:1:38: error: precision.residual = fp64 does not go with precision.compute = bf16",
      "beside bf16 it may also be fp32"}},
    {"precision: {compute: fp64, residual: fp32}", {"precision.residual = fp32 does not go with"}},
    {"parallel: {tensor: {y: 3}}",
     {"a.yaml:1:24: error: model.hidden_size = 128 is not divisible by parallel.tensor.y = 3",
      "parallel.tensor.y = 1, 2, 4, 8,", "model.hidden_size = 126 or 129"}},
    {"parallel: {tensor: {x: 65536}, data: 12}", {"are 786432 ranks", "the largest job has 65536"}},
    {"--set model.num_attention_heads=5",
     {"--set #1: error: model.hidden_size = 128 is not divisible by", "= 5"}},
};

/// The end of a file of a VGG, so that only what stands before it is wrong.
#define VGG "\nmodel: {kind: vgg}\ndata: {format: pictures, path: x"
const std::vector<Case> pictures = {
    {"vgg: {widths: 64}" VGG "}",
     {"a.yaml:1:15: error: vgg.widths: expected list of whole numbers from 1 to 1000000, or pool",
      "write a list: [64, 64, pool, 128, 128, pool]"}},
    {"vgg: {widths: [64, 0]}" VGG "}", {"a.yaml:1:20:", "got '0'"}},
    {"vgg: {widths: [64, poll]}" VGG "}", {"a.yaml:1:20:", "got 'poll'"}},
    {"vgg: {widths: [64, [1]]}" VGG "}", {"a.yaml:1:20:"}},
    {"vgg: {widths: []}" VGG "}", {"vgg.widths has no convolution", "for example [64, pool"}},
    {"vgg: {widths: [pool, 64]}" VGG "}", {"begins with pool, expected a convolution"}},
    {"vgg: {hidden: [64, pool]}" VGG "}", {"a.yaml:1:20:", "got 'pool'"}},
    {"vgg: {picture: [32, 32]}" VGG "}",
     {"vgg.picture has 2 numbers, expected height, width and channels"}},
    {"vgg: {picture: [32, 32, 3, 1]}" VGG "}", {"has 4 items, at most 3"}},
    {"vgg: {picture: [32, 32, 2]}" VGG "}", {"vgg.picture ", "for example [32, 32, 3]"}},
    {"vgg: {widths: [8, pool, pool, pool], picture: [7, 32, 3]}" VGG "}",
     {"vgg.widths pools 3 times, but a picture of 7 x 32 can be halved 2 times",
      "leave out 1 of 'pool'"}},
    {"vgg: {dropout: 1}" VGG "}", {"vgg.dropout: expected number at least 0 and below 1"}},
    {"run: {name: a}" VGG ", mean: 0.5}", {"data.mean: expected list of numbers from 0 to 1"}},
    {"run: {name: a}" VGG ", mean: []}", {"data.mean: expected list of numbers"}},
    {"run: {name: a}" VGG ", mean: [0.5, 1.5, 0.5]}", {"got '1.5'"}},
    {"run: {name: a}" VGG ", deviation: [0]}",
     {"data.deviation: expected list of numbers above 0"}},
    {"run: {name: a}" VGG ", deviation: [0.1, 0.2]}",
     {"data.deviation has 2 numbers for pictures of 1 or 3 channels"}},
    {"vgg: {picture: [8, 8, 1]}" VGG ", mean: [0.5, 0.5, 0.5]}",
     {"data.mean has 3 numbers for pictures of 1 channels"}},
    {"run: {name: a}" VGG ", bad_images: skip}", {"data.bad_images: expected stop or skip:N"}},
    {"run: {name: a}" VGG ", bad_images: \"skip:-1\"}",
     {"data.bad_images: expected stop or skip:N"}},
    {"run: {name: a}" VGG ", seq_length: 5}",
     {"data.seq_length is a setting of gpt, but model.kind = vgg",
      "leave data.seq_length out, or set model.kind = gpt"}},
    {"sample: {tokens: 5}" VGG "}", {"sample.tokens is a setting of gpt"}},
    {"precision: {compute: bf16, residual: fp32}" VGG "}",
     {"a.yaml:1:38: error: precision.residual is a setting of gpt, but model.kind = vgg",
      "leave precision.residual out"}},
    {"model: {kind: gpt}\nvgg: {hidden: [8]}",
     {"vgg.hidden is a setting of vgg, but model.kind = gpt"}},
    {"model: {kind: vgg}",
     {"model.kind = vgg looks at pictures, but data.format is of text",
      "set data.format = pictures, or synthetic"}},
    {"data: {format: pictures, path: x}",
     {"model.kind = gpt reads text, but data.format = pictures"}},
    {"model: {kind: vgg}\ndata: {format: pictures}", {"data.format = pictures needs data.path"}},
    {"model: {kind: vgg}\ndata: {format: synthetic}",
     {"data.format = synthetic is of no size of its own, but vgg.picture is open",
      "set vgg.picture, for example [32, 32, 3]"}},
    {"vgg: {picture: [8, 8, 3]}\nmodel: {kind: vgg}\ndata: {format: synthetic}",
     {"but vgg.num_classes is open"}},
};
#undef VGG

INSTANTIATE_TEST_SUITE_P(Pictures, BadValue, testing::ValuesIn(pictures));
INSTANTIATE_TEST_SUITE_P(Integers, BadValue, testing::ValuesIn(integers));
INSTANTIATE_TEST_SUITE_P(Numbers, BadValue, testing::ValuesIn(numbers));
INSTANTIATE_TEST_SUITE_P(Words, BadValue, testing::ValuesIn(words));
INSTANTIATE_TEST_SUITE_P(Grids, BadValue, testing::ValuesIn(grids));
INSTANTIATE_TEST_SUITE_P(Structure, BadValue, testing::ValuesIn(structure));
INSTANTIATE_TEST_SUITE_P(Sets, BadValue, testing::ValuesIn(sets));
INSTANTIATE_TEST_SUITE_P(Relations, BadValue, testing::ValuesIn(relations));

}  // namespace
}  // namespace fourfold::config
