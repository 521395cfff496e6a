package wrk

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// RunTarget is Run with requests for a target other than "/".
func (r *Runner) RunTarget(ctx context.Context, load Load, addr, target string, duration time.Duration) (Result, error) {
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(r.cpu), "wrk", "-t", "1", "-c", strconv.Itoa(load.Conns),
		"-d", strconv.Itoa(int(duration/time.Second))+"s", "-s", r.script, "http://"+addr+target)
	cmd.Env = append(cmd.Environ(), "LOAD_DEPTH="+strconv.Itoa(max(load.Depth, 1)),
		"LOAD_CLOSE="+strconv.FormatBool(load.Close), "LOAD_BROWSER="+strconv.FormatBool(load.Browser))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return parse(string(out))
}
