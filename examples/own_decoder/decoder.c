/* The classes that the network cannot rule out: as few as have 90 % of the probability together.
 * decoder.py gives the same results on the host. */
#include <edgepipe/decoder_function.h>
#include <math.h>
#include <stdio.h>

static const double kShare = 0.9;

/* The best class behind `last` in the order of scores, ties to the lower index. */
static int next_class(const float *scores, int count, int last) {
  int best = -1;
  for (int index = 0; index < count; ++index) {
    if (last >= 0 && (scores[index] > scores[last] ||
                      (scores[index] == scores[last] && index <= last))) {
      continue;
    }
    if (best < 0 || scores[index] > scores[best]) best = index;
  }
  return best;
}

int decode(const EpDecoderInput *input, EpDecoderOutput *output, char *error,
           uint64_t error_bytes) {
  const EpDecoderTensor *tensor = &input->tensors[0];
  if (input->tensor_count != 1 || tensor->rank != 2 || tensor->shape[0] != 1) {
    snprintf(error, (size_t)error_bytes, "%s: expected one tensor [1, classes]", tensor->name);
    return 1;
  }
  const float *scores = tensor->values;
  const int count = (int)tensor->shape[1];
  int index = next_class(scores, count, -1);
  if (index < 0) return 0; /* no score is a number */
  const double highest = scores[index];
  double total = 0;
  for (int each = 0; each < count; ++each) total += exp(scores[each] - highest);
  double share = 0;
  while (index >= 0 && share < kShare) {
    if (output->class_count == output->most_classes) {
      snprintf(error, (size_t)error_bytes, "more than %u classes", output->most_classes);
      return 1;
    }
    const double probability = exp(scores[index] - highest) / total;
    const EpClass found = {index, scores[index], (float)probability};
    output->classes[output->class_count++] = found;
    share += probability;
    index = next_class(scores, count, index);
  }
  return 0;
}
