package message_test

import (
	"bufio"
	"strings"
)

func readerOf(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }
