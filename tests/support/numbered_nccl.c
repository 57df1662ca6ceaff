/* A library with NCCL's names: each function answers with a number of its own, so that a test sees
 * which one it has reached. NCCL_VERSION is the version it says it is. */
int ncclGetVersion(int* version) {
  *version = NCCL_VERSION;
  return 0;
}
#ifndef NCCL_HAS_NOTHING_ELSE
int ncclGetUniqueId(void) { return 101; }
int ncclCommInitRankConfig(void) { return 102; }
int ncclCommSplit(void) { return 103; }
int ncclCommFinalize(void) { return 104; }
int ncclCommDestroy(void) { return 105; }
int ncclCommAbort(void) { return 106; }
int ncclCommGetAsyncError(void) { return 107; }
const char* ncclGetErrorString(void) { return "108"; }
const char* ncclGetLastError(void) { return "109"; }
int ncclGroupStart(void) { return 110; }
int ncclGroupEnd(void) { return 111; }
int ncclAllReduce(void) { return 112; }
int ncclReduceScatter(void) { return 113; }
int ncclAllGather(void) { return 114; }
int ncclSend(void) { return 115; }
int ncclRecv(void) { return 116; }
int ncclMemAlloc(void) { return 117; }
int ncclMemFree(void) { return 118; }
#ifndef NCCL_CANNOT_REGISTER
int ncclCommRegister(void) { return 119; }
#endif
int ncclCommDeregister(void) { return 120; }
#endif
