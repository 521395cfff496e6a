// Package prefork serves with several processes: a master that holds the
// listening sockets and serves nothing, and workers that do.
//
//	server := &sluice.Server{Handler: handler}
//	if err := prefork.New(server).ListenAndServe(":8080"); err != nil {
//		log.Fatal(err)
//	}
//
// The same program runs in all of them, from the top of main: ListenAndServe
// makes the first process the master, which starts the program again once for
// each CPU with an environment variable by which it knows that it is a worker.
// What main does before ListenAndServe is therefore done in every process;
// IsChild tells them apart.
//
// Workers share no memory. Package shared has counters, limits and caches that
// they share nevertheless.
//
// The master replaces workers that die, and answers signals:
//
//	TERM, INT   end: requests have ShutdownGracePeriod to finish
//	QUIT        end at once, with the stacks of every process in the log
//	HUP         replace the workers one by one, without a failed connection
//	USR1        reopen log files (OnReopen)
//	TTIN, TTOU  one worker more, one less
//	WINCH       end the workers and keep the sockets, until HUP
//
// The interface is that of fasthttp's package of the same name; docs/guide/prefork.md
// says how processes and signals work, and docs/compatibility.md what differs.
package prefork
