package command

import (
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestFlagSet(t *testing.T) {
	flags := NewFlagSet("x", "Command x measures.")
	rounds := flags.Int("rounds", 3, "rounds")
	pattern := flags.String("case", ".", "cases")
	flags.Bool("tls", false, "over TLS")
	if err := flags.Parse([]string{"-case", "a|b", "-rounds=5", "-markdown", "file"}); err != nil {
		t.Fatal(err)
	}
	if *rounds != 5 || *pattern != "a|b" || flags.Markdown != "file" {
		t.Errorf("rounds %d, case %q, markdown %q", *rounds, *pattern, flags.Markdown)
	}
	if got, want := flags.CommandLine(), "go -C bench run ./x -case='a|b' -rounds=5"; got != want {
		t.Errorf("command line %q, want %q", got, want)
	}
}

func TestHelp(t *testing.T) {
	flags := NewFlagSet("x", "Command x measures.")
	var out strings.Builder
	flags.SetOutput(&out)
	if err := flags.Parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{"Command x measures.", "go -C bench run ./x", "-markdown"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	if err := flags.Parse([]string{"stray"}); err == nil {
		t.Error("no error from a stray argument")
	}
}

func TestRequire(t *testing.T) {
	if err := Require("no-such-tool-here"); err == nil {
		t.Error("a tool that does not exist is not missed")
	}
}
