// The file of a cluster, read strictly and written. Not where files are found (known_clusters.h).
//
//   title: "Two hosts of four GPUs"
//   devices: 8                              # what the levels join; checked
//   device:
//     name: "NVIDIA A100-SXM4-40GB"
//     memory: 40 GiB
//     memory_bandwidth: 1555 GB/s
//     memory_share: 0.85                    # reached by element-wise rows; default: 1
//     instruction: 5 us                     # default: 0 s
//     slowdown_beside_communication: 1.1    # of compute; default: 1
//     rates:
//       bf16:
//         peak: 312 TFLOP/s
//         efficiency:                       # by flops of a product; default: the peak at every
//         size
//           - {flops: 1 GFLOP, share: 0.3}
//     kernels: []                           # calls that were measured; default: none
//     unmeasured: [convolution]             # operations of which no call was; default: none is
//     said
//   levels:                                 # innermost first; default: none, one device
//     - name: nvlink
//       units: 4
//       latency: 3 us
//       link: 100 GB/s
//       port: 300 GB/s
//       group: 300 GB/s                     # default: as the port
//       share: 0.77                         # of these rates that programs reach; default: 1
//       pairs: [[0 B/s, 100 GB/s, ...], ...]  # default: every two units are joined
//     - {name: network, units: 2, latency: 4 us, link: 25 GB/s, port: 4 x 25 GB/s}
//   ranks_per_device: 1                     # default: 1
//   element: 4 B                            # the least of one in a collective; default: its own
//   file_system: 5 TB/s                     # written by all ranks together; default: not known
//   groups:                                 # measured; default: none
//     - {kind: all_reduce, ranks: 8, stride: 1, latency: 20 us, rate: 80 GB/s}
#pragma once

#include <string>

#include "machine/cluster.h"

namespace fourfold::machine {

/// `file`: what messages call the text; `name`: the cluster's. Errors: one UserError(bad_config)
/// with every problem of the text, each with its line.
Cluster read_cluster(const std::string& text, const std::string& file, const std::string& name);

/// Reads back to an equal cluster, its name apart. `comment`: lines that go first, each a comment.
std::string to_yaml(const Cluster& cluster, const std::string& comment = {});

}  // namespace fourfold::machine
