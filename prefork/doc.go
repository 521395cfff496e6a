// Package prefork serves with several processes: a master, which owns the
// listening sockets, and workers, which accept and serve connections.
//
//	server := &sluice.Server{Handler: handler}
//	if err := prefork.New(server).ListenAndServe(":8080"); err != nil {
//		log.Fatal(err)
//	}
//
// The same program runs in every process, from the top of main. ListenAndServe
// makes the first process the master. The master starts the program again, once
// for each CPU, with an environment variable that marks a worker. What main does
// before ListenAndServe is therefore done in every process; IsChild tells them
// apart.
//
// Go variables are not shared between workers. Package shared has counters,
// limits and caches that are.
//
// The master replaces workers that die, and handles signals:
//
//	TERM, INT   end; requests have ShutdownGracePeriod to finish
//	QUIT        end at once, with the stacks of every process in the log
//	HUP         replace the workers one by one, without a failed connection
//	USR2        so, with the binary that the program's file has now
//	USR1        reopen log files (OnReopen)
//	TTIN, TTOU  one worker more, one less
//	WINCH       end the workers and keep the sockets, until HUP
//
// The API is that of fasthttp's package of the same name. docs/guide/prefork.md
// explains the processes and signals; docs/compatibility.md lists the
// differences.
package prefork
