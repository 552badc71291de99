/* Look-ups of int8 values: functions of one number, operators of kind "table". */
#include <stdint.h>

/* made = table[x + offset]: one table for all channels, or one for each, which offset selects. */
int32_t lookup(const int64_t (*shapes)[4], const int8_t* x, const int32_t* offset,
               const int8_t* table, int8_t* made) {
  const int64_t channels = shapes[0][1], pixels = shapes[0][2] * shapes[0][3];
  const int64_t offsets = shapes[1][0] * shapes[1][1] * shapes[1][2] * shapes[1][3];
  for (int64_t c = 0; c < channels; ++c) {
    const int8_t* row = table + offset[offsets == 1 ? 0 : c];
    for (int64_t i = 0; i < pixels; ++i) made[c * pixels + i] = row[x[c * pixels + i]];
  }
  return 0;
}
