package command

import (
	"fmt"
	"math/rand/v2"
	"regexp"
)

// Rounds has each contender take a turn in each round, in random order, after a round to
// warm up. It returns the samples by the contender's name, round by round.
func Rounds[Sample any](title string, rounds int, contenders []string, turn func(i int, warmsUp bool) (Sample, error)) (map[string][]Sample, error) {
	samples := make(map[string][]Sample)
	for round := range rounds + 1 { // round 0 warms up
		Progress("%s: round %d/%d", title, round, rounds)
		for _, i := range rand.Perm(len(contenders)) {
			sample, err := turn(i, round == 0)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", contenders[i], err)
			}
			if round > 0 {
				samples[contenders[i]] = append(samples[contenders[i]], sample)
			}
		}
	}
	return samples, nil
}

// Choose returns those of all whose names match the regular expression of a flag.
func Choose[Case any](flag, pattern string, all []Case, name func(Case) string) (chosen []Case, err error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	for _, c := range all {
		if wanted.MatchString(name(c)) {
			chosen = append(chosen, c)
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("--%s %q matches nothing", flag, pattern)
	}
	return chosen, nil
}
