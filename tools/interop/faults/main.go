// Command faults measures what a package's tests notice: it puts random faults
// into the package, one at a time, and runs the tests of that package alone. For
// the root package, ".", these are its own and those of the folders below test.
//
//	go -C tools/interop run ./faults -n 40 internal/wire/h1 tcp
//	go -C tools/interop run ./faults -at tcp/adopt.go:38
//
// Only the folders whose tests run the code with the fault are asked (those that run it
// in a process of their own only are not known), and of their tests, those that take .1 s
// or longer only where the others notice nothing.
// Each line ends with the test that noticed: look at it where the machine is
// loaded and tests fail of themselves.
// A fault that no test notices shows a missing test, or changes nothing that
// can be observed; a person must tell which. The same seed on the same code
// makes the same faults. The sources are not touched: a fault is an overlay of
// the compiler. Most are compiled together, and switched on one by one by the environment.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// Options of one run.
type options struct {
	root    string
	seed    uint64
	count   int
	timeout time.Duration
	at      string
	short   bool
}

func run(ctx context.Context, out io.Writer, args []string) error {
	var o options
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "the module's `folder`")
	flags.Uint64Var(&o.seed, "seed", 1, "chooses the faults")
	flags.IntVar(&o.count, "n", 30, "faults for each package")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "a test run that takes longer has noticed the fault")
	flags.StringVar(&o.at, "at", "", "every fault of one `file:line`, instead of random ones")
	flags.BoolVar(&o.short, "short", false, "run the tests with -short")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dirs := flags.Args()
	if o.at != "" {
		dirs = []string{filepath.Dir(o.at)}
	}
	if len(dirs) == 0 {
		return errors.New("which packages? Give their folders, relative to the module's")
	}
	temp, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for _, dir := range dirs {
		if err := probe(ctx, out, o, dir, temp); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// probe tries the faults of one package and reports each, and the sum.
func probe(ctx context.Context, out io.Writer, o options, dir, temp string) error {
	suites, err := findSuites(o.root, dir)
	if err != nil {
		return err
	}
	t := tester{options: o, dir: filepath.Join(o.root, dir), suites: suites, temp: temp}
	if found, how, err := t.learn(ctx); err != nil {
		return err
	} else if found != unnoticed {
		return fmt.Errorf("the tests fail without a fault: %s", how)
	}
	faults, err := findFaults(t.dir)
	if err != nil {
		return err
	}
	count := o.count
	if o.at != "" {
		faults, count = atLine(faults, o.at), len(faults)
	} else {
		name := fnv.New64a()
		name.Write([]byte(dir))
		random := rand.New(rand.NewPCG(o.seed, name.Sum64()))
		random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	}
	var sum [broken + 1]int
	for len(faults) > 0 && sum[noticed]+sum[unnoticed] < count {
		some := faults[:min(count-sum[noticed]-sum[unnoticed], len(faults))]
		faults = faults[len(some):]
		if err := t.together(ctx, some); err != nil {
			return err
		}
		for _, f := range some {
			found, how, err := t.verdict(ctx, &f)
			if err != nil {
				return err
			}
			sum[found]++
			if found != broken {
				line := fmt.Sprintf("%-9s  %s/%s:%d  %s  %s", found, dir, filepath.Base(f.file), f.line, f.what, how)
				fmt.Fprintln(out, strings.TrimSpace(line))
			}
		}
	}
	tried := sum[noticed] + sum[unnoticed]
	fmt.Fprintf(out, "%s: seed %d, %d of %d noticed (%d more did not compile)\n", dir, o.seed, sum[noticed], tried, sum[broken])
	return nil
}

// atLine returns the faults of one line, written as file:line.
func atLine(faults []fault, at string) []fault {
	name, number, _ := strings.Cut(filepath.Base(at), ":")
	line, _ := strconv.Atoi(number)
	var here []fault
	for _, f := range faults {
		if filepath.Base(f.file) == name && f.line == line {
			here = append(here, f)
		}
	}
	return here
}
