package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// TestExecute: the exit status tells wrong use from failures.
func TestExecute(t *testing.T) {
	_, notThere := os.Open("/none/x")
	for _, c := range []struct {
		name string
		args []string
		err  error
		want int
	}{
		{"success", []string{"do", "x"}, nil, 0},
		{"failure", []string{"do", "x"}, errors.New("refused"), 1},
		{"wrong use", []string{"do", "x"}, fmt.Errorf("wrapped: %w", Misuse(errors.New("--a excludes --b"))), 2},
		{"no error", []string{"do", "x"}, Misuse(nil), 0},
		{"a file that is not there", []string{"do", "x"}, Misuse(fmt.Errorf("--data: %w", notThere)), 1},
		{"no argument", []string{"do"}, nil, 2},
		{"two arguments", []string{"do", "x", "y"}, nil, 2},
		{"no command", []string{"undo"}, nil, 2},
		{"a group of commands", []string{"group"}, nil, 0},
		{"no command of a group", []string{"group", "undo"}, nil, 2},
		{"no command of cobra's group", []string{"completion", "nosuch"}, nil, 2},
		{"an argument too many", []string{"group", "show", "x"}, nil, 2},
		{"no flag", []string{"do", "--nosuch", "x"}, nil, 2},
		{"no number", []string{"do", "--count", "abc", "x"}, nil, 2},
		{"help", []string{"do", "--help"}, errors.New("it ran"), 0},
		{"help of all", []string{"help"}, nil, 0},
		{"help of a command", []string{"help", "do"}, errors.New("it ran"), 0},
		{"help of a command of a group", []string{"help", "group", "show"}, nil, 0},
		{"help of no command", []string{"help", "nosuch"}, nil, 2},
		{"help of no command of a group", []string{"help", "group", "nosuch"}, nil, 2},
		{"help of a command's argument", []string{"help", "do", "x"}, nil, 2},
		{"no flag of help", []string{"help", "--nosuch"}, nil, 2},
	} {
		root := &cobra.Command{Use: "program", SilenceErrors: true, SilenceUsage: true}
		do := &cobra.Command{Use: "do X", Args: OneArgument("X"), RunE: func(*cobra.Command, []string) error { return c.err }}
		do.Flags().Int("count", 0, "")
		group := &cobra.Command{Use: "group"}
		group.AddCommand(&cobra.Command{Use: "show", Args: NoArguments, Run: func(*cobra.Command, []string) {}})
		root.AddCommand(do, group)
		root.SetArgs(c.args)
		if got := Execute(root); got != c.want {
			t.Errorf("%s: exit status %d, want %d", c.name, got, c.want)
		}
	}
}

func TestMessage(t *testing.T) {
	for text, want := range map[string]string{
		"sluice: Admin: no such file":                  "Admin: no such file",
		"no answer from x: sluice: cannot connect":     "no answer from x: cannot connect",
		"cannot listen on sluice: there is no service": "cannot listen on sluice: there is no service",
	} {
		if got := Message(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestMessageOfDescriptors: too few descriptors are said with what to do, however deep the error is.
func TestMessageOfDescriptors(t *testing.T) {
	for cause, want := range map[syscall.Errno]string{
		syscall.EMFILE: "; raise the limit of this process: ulimit -n, LimitNOFILE= of systemd",
		syscall.ENFILE: "; raise the limit of the system: sysctl fs.file-max",
		syscall.EACCES: "",
	} {
		err := fmt.Errorf("sluice: the service: %w", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("socket", cause)})
		if got := Message(err); got != "the service: listen tcp: socket: "+cause.Error()+want {
			t.Errorf("%v: %q", cause, got)
		}
	}
}

// TestFlagErrors: an error about a flag says what it takes, in no words of strconv.
func TestFlagErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--int=abc":                  `--int takes a whole number, not "abc"`,
		"--int=99999999999999999999": `--int takes a number of a usual size, not "99999999999999999999"`,
		"--int64=1.5":                `--int64 takes a whole number, not "1.5"`,
		"--float=x":                  `--float takes a number, not "x"`,
		"--bool=maybe":               `--bool takes true or false, not "maybe"`,
		"--seconds=5x":               `invalid argument "5x" for "--seconds" flag: 5x is no duration: 5 and 5s are five seconds, 500ms and 1m30s others`,
		"-x":                         "unknown shorthand flag: 'x' in -x; see program --help",
		"--nosuch":                   "unknown flag: --nosuch; see program --help",
	} {
		cmd := &cobra.Command{Use: "program"}
		flags := cmd.Flags()
		flags.Int("int", 0, "")
		flags.Int64("int64", 0, "")
		flags.Float64("float", 0, "")
		flags.Bool("bool", false, "")
		flags.Var(new(Seconds), "seconds", "")
		if err := flagError(cmd, flags.Parse([]string{args})); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
