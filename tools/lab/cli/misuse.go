package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misuseStatus is the exit status of a command that was called in a wrong way, as
// it is of package flag and of shells. All other failures have 1.
const misuseStatus = 2

// misuse is an error in how a command was called.
type misuse struct{ error }

// Unwrap returns the error that was given to Misuse.
func (m misuse) Unwrap() error { return m.error }

// Misuse says that err, which may be nil, is about how the command was called:
// Execute returns 2 for it. The flags and the number of arguments are checked
// before RunE, and need no such mark. An error of package os about a file is returned unchanged:
// the command may be right, and the file not there yet.
func Misuse(err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) {
		return err
	}
	return misuse{err}
}

// Execute runs a command, prints its error to stderr after the name of root, and
// returns the exit status: 0, 1 for a failure, 2 for wrong use.
func Execute(root *cobra.Command) int {
	root.SetFlagErrorFunc(flagError)
	began := false // flags and arguments were right
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	refuseUnknown(root.Commands())
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), Message(err))
	var m misuse
	if !began || errors.As(err, &m) {
		return misuseStatus
	}
	return 1
}

// refuseUnknown makes those of the commands that only have others below them refuse a name
// that none of these has: cobra would print help, and a script would take that for success.
// The help of a name that none has is refused likewise.
func refuseUnknown(commands []*cobra.Command) {
	for _, c := range commands {
		if c.Name() == "help" {
			c.Args, c.Run = helpOf, nil
			c.RunE = func(help *cobra.Command, args []string) error {
				of, _, err := help.Root().Find(args)
				if err != nil {
					return err
				}
				of.InitDefaultHelpFlag()
				return of.Help()
			}
		}
		if refuseUnknown(c.Commands()); c.HasSubCommands() && !c.Runnable() {
			c.Args, c.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// helpOf checks that the arguments of help are the name of a command.
func helpOf(help *cobra.Command, args []string) error {
	of, rest, err := help.Root().Find(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%s has no command %q; see %s --help", of.CommandPath(), rest[0], of.CommandPath())
	}
	return err
}

// Message returns the text of an error without the names of packages: what prints it says the
// program's name, which is the same. Where descriptors are missing, it says what to do.
func Message(err error) string {
	const name = "sluice: "
	text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), ": "+name, ": "), name)
	switch {
	case errors.Is(err, syscall.EMFILE):
		text += "; raise the limit of this process: ulimit -n, LimitNOFILE= of systemd"
	case errors.Is(err, syscall.ENFILE):
		text += "; raise the limit of the system: sysctl fs.file-max"
	}
	return text
}

// flagError says what a flag takes where package pflag shows the words of strconv, and where the flags
// of cmd are listed.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	}
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	takes := "a number"
	switch kind := invalid.GetFlag().Value.Type(); {
	case kind == "bool":
		takes = "true or false"
	case errors.Is(number, strconv.ErrRange):
		takes = "a number of a usual size"
	case kind != "float64":
		takes = "a whole number"
	}
	return fmt.Errorf("--%s takes %s, not %q", invalid.GetFlag().Name, takes, invalid.GetValue())
}
