# Sensors and clocks of a machine, for every board_side.sh that shows them. Every value is one line: a
# key, a blank, values. What cannot be read prints nothing.

# first FILE: its first line; nothing if it cannot be read.
first() {
    [ ! -r "$1" ] || head -n 1 "$1" 2>/dev/null || true
}

# readings SYSTEM: clocks of the cores in kHz and of the FPGA in Hz, temperatures in millidegrees,
# power in microwatts.
readings() {
    for folder in "$1"/sys/devices/system/cpu/cpu[0-9]*/cpufreq; do
        [ -r "$folder/scaling_cur_freq" ] || continue
        cpu=${folder%/cpufreq}
        echo "clock ${cpu##*/} $(first "$folder/scaling_cur_freq")" \
            "$(first "$folder/scaling_max_freq") $(first "$folder/scaling_governor")"
    done
    # The first FPGA clock, as the clock drivers of ZynqMP and Zynq name it.
    for name in pl0_ref fclk0; do
        value=$(first "$1/sys/kernel/debug/clk/$name/clk_rate")
        [ -z "$value" ] || echo "logicclock $value $name"
    done
    for folder in "$1"/sys/class/thermal/thermal_zone*; do
        value=$(first "$folder/temp")
        [ -z "$value" ] || echo "temperature $value $(first "$folder/type")"
    done
    # A Zynq's own sensors (XADC, AMS) are converters: degrees are (raw + offset) * scale / 1000.
    for raw in "$1"/sys/bus/iio/devices/iio:device*/in_temp*_raw; do
        value=$(first "$raw")
        stem=${raw%_raw} name=${raw##*/in_}
        offset=$(first "${stem}_offset") scale=$(first "${stem}_scale")
        [ -z "$value" ] || echo "temperature $(echo "$value ${offset:-0} ${scale:-1}" |
            awk '{ printf "%d", ($1 + $2) * $3 }') ${name%_raw}"
    done
    for folder in "$1"/sys/class/hwmon/hwmon*; do
        name=$(first "$folder/name")
        for file in "$folder"/temp*_input; do
            value=$(first "$file")
            [ -z "$value" ] || echo "temperature $value $name"
        done
        for file in "$folder"/power*_input; do
            value=$(first "$file")
            [ -z "$value" ] || echo "power $value $name $(first "${file%_input}_label")"
        done
    done
}
