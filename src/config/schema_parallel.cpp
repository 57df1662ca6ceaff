// Rows of the schema: the grid of ranks, memory, precision.
#include "config/family.h"
#include "config/schema_fields.h"

namespace fourfold::config {

std::vector<Key> grid_keys() {
  using plan::Grid;
  using plan::PlanSpec;
  using plan::Strategy;
  return {
      {.path = "parallel.strategy",
       .meaning =
           "How tensors are cut: axonn on any grid; atp on x, y and data, y innermost; megatron "
           "on x and data; fsdp on z and data; auto: how every op is cut is searched for, on "
           "run.machine, and axonn's plan beside it (Zhang et al. 2023).",
       .field = choice<Strategy>(at(&Config::plan, &PlanSpec::strategy),
                                 {"axonn", "atp", "megatron", "fsdp", "auto"},
                                 {Strategy::axonn, Strategy::atp, Strategy::megatron,
                                  Strategy::fsdp, Strategy::searched}),
       .fallback = "axonn",
       .example = "megatron",
       .elsewhere = {"parallel_strategy", "distributed_strategy", "parallelism",
                     "distribution_strategy"}},
      {.path = "parallel.tensor.x",
       .meaning = "Ranks that share the heads and the inner columns of a block; they sum "
                  "activations. auto, here and of y and z: the planner chooses for the ranks that "
                  "are there, on run.machine; parallel.tensor: auto is all three.",
       .field = at_axis(&Grid::x, &OpenAxes::x),
       .fallback = "1",
       .bounds = between(1, most_ranks),
       .unit = "ranks",
       .cost = "Weights and arithmetic of a rank are divided by x; every block sums activations "
               "over x, bytes in proportion to (x - 1) / x.",
       .example = "2",
       .elsewhere = {"tensor_model_parallel_size", "tensor_parallel_degree", "tensor_parallel_size",
                     "tp", "G_intra_r"}},
      {.path = "parallel.tensor.y",
       .meaning =
           "Ranks that share the columns of the residual stream; they sum activations. auto: "
           "as for x.",
       .field = at_axis(&Grid::y, &OpenAxes::y),
       .fallback = "1",
       .bounds = between(1, most_ranks),
       .unit = "ranks",
       .cost = "Weights and arithmetic of a rank are divided by y; every block sums activations "
               "over y, bytes in proportion to (y - 1) / y.",
       .example = "2",
       .elsewhere = {"G_intra_c"}},
      {.path = "parallel.tensor.z",
       .meaning = "Ranks that share samples and the rows of weights; they gather weights. auto: as "
                  "for x.",
       .field = at_axis(&Grid::z, &OpenAxes::z),
       .fallback = "1",
       .bounds = between(1, most_ranks),
       .unit = "ranks",
       .cost = "Weights of a rank are divided by z; they are gathered, and gradients summed, in "
               "every micro-batch, bytes in proportion to (z - 1) / z.",
       .example = "4",
       .elsewhere = {"zero3_size", "dp_shard", "G_intra_d", "data_parallel_shard_degree",
                     "fsdp_size"}},
      {.path = "parallel.data",
       .meaning = "Ranks that share samples and repeat all weights; auto: as many as the job has "
                  "for x y z ranks.",
       .field = at_axis(&Grid::data, &OpenAxes::data),
       .fallback = "auto",
       .bounds = between(1, most_ranks),
       .unit = "ranks",
       .cost = "Samples of a rank are divided, its weights are not; gradients are summed once a "
               "step, bytes in proportion to (data - 1) / data.",
       .example = "8",
       .elsewhere = {"data_parallel_size", "data_parallel_replicate_degree", "data_parallel_degree",
                     "dp", "G_data", "devices"}},
      {.path = "parallel.order",
       .meaning = "Axes of the grid, the one whose neighbours are neighbouring ranks first.",
       .field = Permutation{at_grid(&Grid::order), {"x", "y", "z", "data"}},
       .fallback = "",
       .cost = "The first axis sends between neighbours, which is cheapest inside a host.",
       .example = "[y, x, z, data]",
       .elsewhere = {"rank_order", "mesh_order", "axis_order"},
       .derived_words = "[x, y, z, data] (strategy atp: [y, x, z, data])",
       .derive =
           [](Config& config) {
             config.plan.grid.order = config.plan.strategy == Strategy::atp
                                          ? std::vector<std::string>{"y", "x", "z", "data"}
                                          : std::vector<std::string>{"x", "y", "z", "data"};
           }},
  };
}

std::vector<Key> pipeline_keys() {
  using pipeline::Schedule;
  using plan::PipelineSpec;
  using Passing = reshard::Strategy;
  return {
      {.path = "parallel.pipeline.stages",
       .meaning = "Parts that the model's blocks are cut into, one after another, each with ranks "
                  "of its own, or shared as parallel.pipeline.stages_per_mesh says; 1: the model "
                  "is not cut. A job has stages x tensor x data ranks, those of a stage in a row, "
                  "or as many fewer as share them. auto: the planner chooses the number, the "
                  "schedule and, where these are auto, the sizes of parallel.tensor, for the ranks "
                  "that are there, on run.machine; a mesh of its own for each stage, where that is "
                  "faster.",
       .field = at_stages(),
       .fallback = "1",
       .bounds = between(1, most_layers),
       .unit = "stages",
       .cost = "Weights, optimizer state and arithmetic of a rank are divided; activations of one "
               "block are sent between stages. Stages wait for the first and the last micro-batch: "
               "a share of (stages - 1) / micro-batches of a step.",
       .example = "2",
       .elsewhere = {"pipeline_model_parallel_size", "pipeline_parallel_size",
                     "pipeline_parallel_degree", "num_stages", "pp", "G_inter"}},
      {.path = "parallel.pipeline.stages_per_mesh",
       .meaning = "Stages that the ranks of a mesh share, with parallel.pipeline.schedule = "
                  "interleaved: of 4 stages, 2 per mesh, the first mesh has stages 0 and 2, the "
                  "second one 1 and 3 (Narayanan et al. 2021).",
       .field = at_pipeline(&PipelineSpec::stages_per_mesh),
       .fallback = "1",
       .bounds = between(1, most_layers),
       .unit = "stages",
       .cost = "Stages wait for the first and the last micro-batch as many times less; as many "
               "times more activations are sent, and more of them are kept.",
       .example = "2",
       .elsewhere = {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank",
                     "num_model_chunks"}},
      {.path = "parallel.pipeline.schedule",
       .meaning = "In which order a stage takes its micro-batches: gpipe, all forward and then all "
                  "backward (Huang et al. 2019); 1f1b, in turn, as soon as the last stage has one "
                  "(Narayanan et al. 2019); interleaved, the same where a mesh has several stages, "
                  "for groups of as many micro-batches as there are meshes; eager-1f1b, with twice "
                  "as many ahead, so that others are computed while one is sent (Zhuang et al. "
                  "2023).",
       .field = choice<Schedule>(at_pipeline(&PipelineSpec::schedule),
                                 {"gpipe", "1f1b", "interleaved", "eager-1f1b"},
                                 {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                                  Schedule::eager_one_f_one_b}),
       .fallback = "1f1b",
       .cost = "gpipe holds the activations of all micro-batches, 1f1b of as many as stages follow "
               "at most, eager-1f1b of twice as many, or of fewer where memory.limit is less; the "
               "same bits.",
       .example = "eager-1f1b",
       .elsewhere = {"pipeline_parallel_schedule", "pipeline_schedule", "pp_schedule"}},
      {.path = "parallel.pipeline.weight_delay",
       .meaning =
           "By how many micro-batches the gradients of weights come after the gradients that "
           "the stage before waits for; none: together with them; auto: as few as make the "
           "shortest step, by arithmetic alone.",
       .field = Place<pipeline::WeightDelay>(at_pipeline(&PipelineSpec::weight_delay)),
       .fallback = "none",
       .unit = "micro-batches",
       .cost = "Each keeps the activations of one more micro-batch; the same bits.",
       .example = "auto"},
      {.path = "parallel.pipeline.blocks",
       .meaning = "How many blocks each stage has, the first stage first. []: so that the stage "
                  "with the most work has as little as can be.",
       .field = Integers{at_pipeline(&PipelineSpec::layers)},
       .fallback = "[]",
       .bounds = between(1, most_layers),
       .unit = "blocks",
       .example = "[5, 7]",
       .elsewhere = {"pipeline_model_parallel_layout", "pipeline_parallel_layers_per_stage",
                     "decoder_first_pipeline_num_layers", "partition_method"}},
      {.path = "parallel.pipeline.meshes",
       .meaning = "The grid of each stage, the first one first, where they differ; an axis that is "
                  "left out is 1. Stages that share a mesh have one grid. []: parallel.tensor and "
                  "parallel.data for all of them.",
       .field = Place<Grids>(at_pipeline(&PipelineSpec::grids)),
       .fallback = "[]",
       .bounds = between(1, most_ranks),
       .unit = "ranks",
       .cost = "A stage with more ranks has blocks in proportion; micro-batches are divided anew "
               "between stages.",
       .example = "[{x: 2}, {data: 2}]"},
      {.path = "parallel.pipeline.transfer",
       .meaning = "How a tensor passes from stage to stage where several ranks want the same part "
                  "of it: broadcast, to one of them, which passes it on in chunks, host after host "
                  "(Zhuang et al. 2023); send_recv, to each of them; local_all_gather and "
                  "global_all_gather, a share to each, which the ranks of a host, or all of them, "
                  "then gather; alpa, as the project of that name does it; signal, one byte: the "
                  "bound of all, which can be simulated and not trained.",
       .field = choice<Passing>(
           [](Config& config) -> Passing& { return config.plan.pipeline.reshard.strategy; },
           {"broadcast", "send_recv", "local_all_gather", "global_all_gather", "alpa", "signal"},
           {Passing::broadcast, Passing::send_recv, Passing::local_all_gather,
            Passing::global_all_gather, Passing::alpa, Passing::signal}),
       .fallback = "broadcast",
       .cost = "With A hosts that want a tensor, and B ranks on each, its bytes leave their host "
               "once with broadcast, A B times with send_recv, A times with local_all_gather, once "
               "and then round a ring of A B ranks with global_all_gather; the same bits.",
       .example = "send_recv"},
      {.path = "parallel.pipeline.transfer_chunks",
       .meaning =
           "Chunks in which a broadcast passes from rank to rank; auto: by its bytes, for 20 "
           "microseconds a message.",
       .field =
           Place<std::optional<std::int64_t>>([](Config& config) -> std::optional<std::int64_t>& {
             return config.plan.pipeline.reshard.chunks;
           }),
       .fallback = "auto",
       .bounds = between(1, reshard::most_chunks),
       .unit = "chunks",
       .cost = "More of them reach the last rank sooner, and are more messages; the same bits.",
       .example = "8"},
      {.path = "parallel.pipeline.ranks_per_host",
       .meaning = "How many ranks, one after another, share a host, so that a tensor enters each "
                  "host once. auto: as the launcher says; all of them where it says nothing.",
       .field =
           Place<std::optional<std::int64_t>>([](Config& config) -> std::optional<std::int64_t>& {
             return config.plan.pipeline.reshard.ranks_per_host;
           }),
       .fallback = "auto",
       .bounds = between(1, most_ranks),
       .unit = "ranks",
       .example = "4"},
  };
}

std::vector<Key> cut_keys() {
  using plan::PlanSpec;
  return {
      {.path = "parallel.pin",
       .meaning =
           "How parameters lie between steps and activations are kept, whatever the strategy "
           "says: a pattern of names, in which '*' is any run of letters, and a sharding as "
           "`fourfold program` prints it, a size or '*' for each dim with the axes that cut "
           "it; or never whole: some axis cuts it. A pattern that is of a parameter is of "
           "parameters alone. All else follows from it.",
       .field = Place<Pins>(at(&Config::plan, &PlanSpec::pins)),
       .fallback = "{}",
       .cost = "More is sent than the strategy would, where what meets the parameter lies "
               "otherwise.",
       .example = "{blocks.*.mlp.up.weight: \"[* (y,z), * (x)]\"}",
       .elsewhere = {"parallelize_plan", "sharding_rules", "logical_axis_rules"}},
      {.path = "parallel.layout",
       .meaning = "A file of `fourfold plan CONFIG -o FILE` that says how all weights lie, how "
                  "activations are kept and how single ops are cut, in place of the strategy. It "
                  "is of one grid. Empty: the strategy says it.",
       .field = at(&Config::layout),
       .fallback = "\"\"",
       .example = "layout.txt"},
      {.path = "parallel.shard_sequence",
       .meaning = "Between blocks, time is cut on x (Korthikanti et al. 2022); strategy megatron "
                  "only.",
       .field = at(&Config::plan, &PlanSpec::shard_sequence),
       .fallback = "false",
       .cost = "true: activations between blocks are divided by x; the same bytes are sent.",
       .example = "true",
       .elsewhere = {"sequence_parallel", "enable_sequence_parallel"}},
  };
}

std::vector<Key> overlap_keys() {
  using plan::PlanSpec;
  return {
      {.path = "parallel.overlap.all_reduce",
       .meaning = "Sums of activations and of their gradients run beside computation, as under the "
                  "product that makes the gradient of a weight. false: computation waits for each.",
       .field = at_overlap(&plan::Overlap::all_reduce),
       .fallback = "true",
       .cost = "false: a step is longer by the time of these sums; the same bits, to see what "
               "overlap is worth.",
       .example = "false",
       .elsewhere = {"tp_comm_overlap", "overlap_all_reduce"}},
      {.path = "parallel.overlap.reduce_scatter",
       .meaning = "Sums of which each rank keeps a block, as gradients of weights on z, run beside "
                  "computation. false: computation waits for each.",
       .field = at_overlap(&plan::Overlap::reduce_scatter),
       .fallback = "true",
       .cost = "false: a step is longer by the time of these sums; the same bits.",
       .example = "false",
       .elsewhere = {"overlap_grad_reduce", "overlap_reduce_scatter"}},
      {.path = "parallel.overlap.all_gather",
       .meaning = "Weights on z are gathered ahead, beside computation. false: each is gathered "
                  "where it is used, and computation waits for it.",
       .field = at_overlap(&plan::Overlap::all_gather),
       .fallback = "true",
       .cost = "false: a step is longer by the time of these gathers; the same bits.",
       .example = "false",
       .elsewhere = {"overlap_param_gather", "overlap_all_gather"}},
      {.path = "parallel.overlap.send_recv",
       .meaning =
           "What passes from stage to stage is received during the micro-batch before, and "
           "sent beside computation. false: a stage receives what it needs next, and has sent "
           "what it made last, before it goes on computing; what its receiver cannot take yet "
           "is kept, and sent after a later task.",
       .field = at_overlap(&plan::Overlap::send_recv),
       .fallback = "true",
       .cost =
           "true: one more slot for what is received and sent, and two tasks longer for what is "
           "sent. false: a step is longer by the time of the transfers; the same bits.",
       .example = "false",
       .elsewhere = {"overlap_p2p_comm", "overlap_p2p_communication"}},
      {.path = "parallel.overlap.weight_gradients",
       .meaning = "Gradients of weights are computed beside the rest of the backward pass, which "
                  "does not wait for them. auto: where a device gains by it, which neither a CPU "
                  "nor an H200 does (tests/bench/results/gpu.md).",
       .field = choice<plan::WeightGradients>(
           [](Config& config) -> plan::WeightGradients& {
             return config.plan.overlap.weight_gradients;
           },
           {"auto", "true", "false"},
           {plan::WeightGradients::automatic, plan::WeightGradients::beside,
            plan::WeightGradients::in_turn}),
       .fallback = "auto",
       .cost = "true: a step may need up to 3 % more memory; the same bits on a GPU, and on a CPU "
               "where run.threads is 1.",
       .example = "true"},
      {.path = "parallel.buckets",
       .meaning = "Gradients are summed on data in pieces of this size, each as soon as the last "
                  "backward pass of a step has made it; 0: one after another at its end.",
       .field = sized(amount(&PlanSpec::bucket_bytes)),
       .fallback = "4MiB",
       .cost = "Small ones start early, but cost more messages; large ones leave more to send when "
               "nothing is left to compute. Where ranks are processes, sums may be rounded in "
               "another order.",
       .example = "16MiB",
       .elsewhere = {"bucket_cap_mb", "ddp_bucket_size", "reduce_bucket_size",
                     "allgather_bucket_size"}},
      {.path = "parallel.chunks",
       .meaning = "Equal chunks of a rank's samples of a micro-batch that training processes by "
                  "turns, so that sums of activations of one run beside the computation of the "
                  "next (ATP, Cheng et al. 2023, section 4.1). Weights are gathered, and their "
                  "gradients summed, once for all chunks. Divides train.micro_batch_size.",
       .field =
           choice<std::int64_t>(at(&Config::plan, &PlanSpec::chunks), {"1", "2", "4"}, {1, 2, 4}),
       .fallback = "1",
       .cost = "The same bytes in as many times more messages, and smaller products, which may be "
               "slower; the same results up to the order of sums.",
       .example = "2",
       .elsewhere = {"num_chunks", "n_chunks"}},
  };
}

std::vector<Key> memory_keys() {
  using plan::PlanSpec;
  return {
      {.path = "memory.limit",
       .meaning = "What a rank's weights, optimizer state and activations may take together. What "
                  "may be chosen is chosen so that it fits: auto of activation_checkpointing and "
                  "of cached_gathers, gathers ahead, memory that is not used again while it is "
                  "sent. auto: what the machine has.",
       .field = with_words(sized(amount(&PlanSpec::memory_limit)), "", "auto"),
       .fallback = "auto",
       .bounds = at_least(1),
       .cost = "A smaller one computes and gathers again, and waits for the network more; the same "
               "bits.",
       .example = "12GiB",
       .elsewhere = {"memory_budget", "max_memory", "activation_memory_budget"}},
      {.path = "memory.cached_gathers",
       .meaning =
           "The gathered weights of so many blocks, the last ones, are kept from the forward "
           "pass for the backward pass; others are gathered on z again. auto: as many as "
           "memory.limit allows or, where that is auto, those of blocks that are not "
           "computed again.",
       .field = with_words(amount(&PlanSpec::cached_gathers), "none", "auto"),
       .fallback = "auto",
       .bounds = between(0, most_layers),
       .unit = "blocks",
       .cost =
           "Each keeps its weights whole on z in memory, and saves one gather of them in every "
           "micro-batch or, where the model is cut into stages, all but one of a step; the same "
           "bits.",
       .example = "none",
       .elsewhere = {"reshard_after_forward", "cache_all_gathers"}},
      {.path = "memory.activation_checkpointing",
       .meaning = "Keep the input of every N blocks (full: every block) and compute the rest again "
                  "backward; selective keeps the outputs of matrix products too and repeats only "
                  "what is cheap; auto is the least of these that fits memory.limit. Less memory, "
                  "more arithmetic, the same bits.",
       .field = Place<plan::Checkpointing>(at(&Config::plan, &PlanSpec::checkpointing)),
       .fallback = "none",
       .cost = "full: the activations of one block and the inputs of all, for about a third more "
               "arithmetic; selective: about half of the activations, for attention, norms and "
               "GELU once more.",
       .example = "selective",
       .elsewhere = {"gradient_checkpointing", "activation_checkpoint", "recompute_activations",
                     "recompute_granularity", "recompute_layer", "recompute"}},
  };
}

std::vector<Key> precision_keys() {
  using plan::PlanSpec;
  return {
      {.path = "precision.compute",
       .meaning =
           "Type of activations and of what matrix products read. Beside bf16, weights, "
           "their gradients' sums and the optimizer's state are fp32, and the update also writes "
           "the weights rounded, as steps read them. A CPU with AVX512-BF16 or AMX has products of "
           "bf16; any other computes them in fp32. What plan, program, verify and simulate show of "
           "bf16 is for no kernels in particular, unless run.device = cpu.",
       .field = choice<DType>(at(&Config::plan, &PlanSpec::compute), {"fp32", "fp64", "bf16"},
                              {DType::f32, DType::f64, DType::bf16}),
       .fallback = "fp32",
       .cost =
           "fp64 takes twice the memory and time of fp32; bf16 half the memory of activations, "
           "and sends half the bytes of activations and gathered weights. It saves time on GPUs "
           "and on CPUs that have products of bf16.",
       .example = "fp64",
       .elsewhere = {"precision", "bf16", "mixed_precision_param", "mixed_precision", "dtype",
                     "torch_dtype", "precision.dtype"}},
      {.path = "precision.residual",
       .meaning = "Type of the residual stream and of its gradient. fp32 beside bf16, as PyTorch's "
                  "autocast has it: each branch is rounded once, and what it is added to never "
                  "again; products and attention stay bf16.",
       .field = choice<DType>(at(&Config::residual), {"fp32", "fp64", "bf16"},
                              {DType::f32, DType::f64, DType::bf16}),
       .fallback = "",
       .cost = "fp32 beside bf16: twice the bytes of the stream in memory, and of what is sent of "
               "it. The error of a bf16 stream grows as the root of its additions, two a block.",
       .example = "fp32",
       .elsewhere = {"fp32_residual_connection", "residual_in_fp32", "residual_dtype"},
       .derived_words = "precision.compute",
       .derive = [](Config& config) { config.residual = config.plan.compute; },
       .kinds = kinds_with_residual_stream()},
      {.path = "precision.reduce",
       .meaning = "Type in which ranks add up the gradients of weights beside precision.compute = "
                  "bf16. bf16: each rank's term is rounded before it moves, and what arrives is "
                  "added to fp32 sums over micro-batches. Anywhere else gradients move in the type "
                  "that they have.",
       .field = choice<bool>(at(&Config::plan, &PlanSpec::rounds_gradients), {"fp32", "bf16"},
                             {false, true}),
       .fallback = "fp32",
       .cost = "bf16: half the bytes of gradients that are sent over z and data, and two bytes a "
               "parameter of memory more while they move; each term and each sum of ranks is off "
               "by up to 2^-8 of it.",
       .example = "bf16",
       .elsewhere = {"reduce_dtype", "mixed_precision_reduce", "grad_reduce_in_bf16",
                     "communication_data_type", "grad_reduce_dtype"}},
  };
}

}  // namespace fourfold::config
