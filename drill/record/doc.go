// Package record is the drill's memory: what every process of a run intended, did and was told, one
// JSON line per event, in files that survive the process.
//
// A line is written by one write call to a file that was opened with O_APPEND, before the next step
// of the process. So a SIGKILL loses no line that was written, and leaves at most one torn line: the
// last. [ReadFile] drops that one and refuses any other damage.
//
// Every line carries two times. At is the system's monotonic clock, in ns: it is the same clock for all
// processes of one machine, it never steps, and it runs on while a process is stopped; what is
// compared between processes is compared by it. Wall is the same instant as the stores would date it; it is
// counted from one reading of both clocks when the record was created.
package record
