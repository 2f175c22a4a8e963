/*
 * One idempotency key: its record, the arrivals that want it, the clock that ends leases, the operator who
 * decides, and the sweep that forgets. README.md says which Go and SQL each action stands for.
 *
 * Each statement that a store sends is one atomic step; between two of them anything may happen: another
 * arrival's statement, the end of the lease, a pause of any length, or the end of the host. Time has no
 * numbers: a lease may end at any moment, and ends if nothing else happens (fairness).
 *
 * A mutation, such as -DNO_TOKEN, takes one condition away. check.sh shows that each of them is found.
 */

#ifndef ARRIVALS
#define ARRIVALS 3
#endif

mtype = { ABSENT, INFLIGHT, DONE, UNKNOWN, FREE, TOMBSTONE };

#ifndef FORGETS
#define FORGETS 1 /* how often the sweep may remove the record */
#endif

#define OPERATOR (ARRIVALS + 1)

/* The record. */
mtype state = ABSENT;
byte token, attempt;      /* of the owner */
bool resume;              /* the owner's work is made of steps */
bool expired;             /* of a claim in flight: the store's clock says that its lease is over */
bool stepSent, stepDone;  /* its one step: it may have been dispatched; its result is known */
byte answer;              /* whose it is; 0 for none */
byte forgets;             /* how often the record was removed */
byte tokenFloor;          /* kept outside of the record: no removed record had a higher token */

/* What only the model knows, to say what must hold. */
byte grant;               /* how many owners and decisions there were */
byte highest;             /* the highest token that was ever given out */
byte started;             /* how many arrivals have begun */
bool maybe;               /* work was begun that may have happened, and nobody has decided since */
byte effects;             /* how often the work's effect happened */
byte allowed = 1;         /* how often it may have: once, and once more when people or time made the key new */
byte fence, fenceGrant;   /* a resource that remembers the highest token it saw, and whose that was */

/* ---- The conditions of the store's statements. ---- */

#ifdef NO_TOKEN
#define OWNED true
#else
#define OWNED (token == myToken && attempt == me)
#endif

#ifdef TAKES_ANY_TOKEN
#define SAME_TOKEN true
#else
#define SAME_TOKEN (token == seenToken)
#endif

#ifdef TAKES_ANY_STATE
#define SAME_STATE (state != ABSENT)
#else
#define SAME_STATE (state == seenState)
#endif

#ifdef OWN_TAKEN
#define OTHERS true
#else
#define OTHERS (attempt != me)
#endif

#ifdef NO_EXPIRY
#define OVER(e) true
#else
#define OVER(e) (e)
#endif

/* ---- An arrival becomes the owner. ---- */

inline win(t) {
	assert(!(state == INFLIGHT && !expired));          /* nobody wins while another one's claim is live */
	assert(t > highest);                               /* the token grows with every owner */
	assert(!maybe || (state == INFLIGHT && resume && steps)); /* only work made of steps is begun again */
	state = INFLIGHT; token = t; attempt = me; resume = steps; expired = false;
	maybe = true; highest = t; grant++;
	myToken = t; myGrant = grant; won = true;
	knewSent = stepSent; knewDone = stepDone
}

inline insert() {
	atomic {
		if
		:: state == ABSENT -> win(tokenFloor + 1)
		:: else
		fi
	}
}

/* What the look tells is judged at once, since judging is pure: see idempotency.Judge. */
inline look() {
	atomic {
		again = state == ABSENT;
		mayTake =
			(state == FREE && OTHERS) ||
			(state == INFLIGHT && OTHERS && OVER(expired) && resume && steps);
		if
		:: mayTake -> seenState = state; seenToken = token
		:: else
		fi
	}
}

/* The conditional update of a takeover, and of a claim on a free key. */
inline take() {
	atomic {
		if
		:: SAME_STATE && SAME_TOKEN && (state != INFLIGHT || OVER(expired)) -> win(seenToken + 1)
		:: else
		fi
	}
}

/* ---- What an owner writes. accepted says whether it counted. ---- */

inline current() {
	assert(myGrant == grant) /* a stale owner never overwrites */
}

inline renew() {
	atomic {
#ifdef RENEW_REVIVES
		accepted = OWNED && state == INFLIGHT;
#else
		accepted = OWNED && state == INFLIGHT && !expired;
#endif
		if
		:: accepted -> current(); assert(!expired); expired = false
		:: else
		fi
	}
}

inline saveStep(isDone) {
	atomic {
		accepted = OWNED && state == INFLIGHT;
		if
		:: accepted ->
			current();
			stepSent = true; stepDone = stepDone || isDone
		:: else
		fi
	}
}

/* to is DONE, FREE, UNKNOWN, or INFLIGHT for letting go. */
inline complete(to) {
	atomic {
		if
		:: OWNED && state == to && to != INFLIGHT -> accepted = true /* said before; its reply was lost */
		:: !(OWNED && state == to && to != INFLIGHT) ->
#ifdef ANSWERS_AGAIN
			accepted = OWNED && state != ABSENT;
#else
			accepted = OWNED && (state == INFLIGHT || state == UNKNOWN);
#endif
			if
			:: accepted ->
				current();
				assert(answer == 0); /* at most one completion lives */
				state = to; expired = expired || to == INFLIGHT;
				if
				:: to == DONE -> answer = me
				:: to == FREE -> maybe = false
				:: else
				fi
			:: else
			fi
		fi
	}
}

/* ---- The work's effect, somewhere else: not one step with anything above. ---- */

inline act() {
	atomic {
		effects++;
		assert(effects <= allowed);
		if
		:: myToken >= fence ->
			assert(myGrant >= fenceGrant); /* whom a newer owner has overtaken is refused */
			fence = myToken; fenceGrant = myGrant
		:: else
		fi
	}
}

/* A host that ends is one that never goes on. Where every order is looked at, that needs no step of its own; for
 * what must happen at last, it does. */
#ifdef HOSTS_END
#define ENDS true -> goto over
#else
#define ENDS false
#endif

/* ---- One arrival: Do, or DoSteps with one StepOnce that nobody can be asked about. ---- */

proctype arrival(byte me) {
	bool steps, won, accepted, knewSent, knewDone, again, mayTake;
	byte myToken, myGrant, seenToken;
	mtype seenState = ABSENT;

	/* All are alike, so it is no loss that they start in the order of their numbers. */
	atomic {
		started == me - 1 -> started++;
		if
		:: steps = true
		:: steps = false
		fi;
claim:
		insert();
		if
		:: won -> goto work
		:: else
		fi
	}
	look();
	if
	:: again -> goto claim
	:: mayTake -> take()
	:: else -> goto over /* told what is there */
	fi;
	if
	:: won -> goto work
	:: else -> goto claim /* what was seen has changed */
	fi;

work:
	if
	:: ENDS
	:: renew()
	:: true
	fi;
	if
	:: !steps && true -> complete(FREE); goto freed /* the work was not done, for certain */
	:: !steps && true -> act()
	:: steps && knewDone
	:: steps && knewSent && !knewDone -> complete(UNKNOWN); goto freed /* it may have been sent: hold */
	:: steps && !knewSent && true -> complete(FREE); goto freed
	:: steps && !knewSent ->
		saveStep(false);
		if
		:: accepted
		:: else -> goto over /* superseded before anything was sent */
		fi;
		if
		:: ENDS
		:: act()
		fi;
		saveStep(true)
	fi;
	if
	:: ENDS
	:: complete(DONE); if :: complete(DONE) :: true fi /* and its repeat */
	:: complete(UNKNOWN); if :: complete(DONE) :: true fi /* a result that comes after all */
	:: steps -> complete(INFLIGHT)
	fi;

freed:
	/* The first message of the claim was held up, and arrives now: it must take nothing for nobody. */
	look();
	if
	:: mayTake && attempt == me -> assert(false)
	:: else
	fi;
over:
	skip
}

/* ---- What goes on beside them, for ever. ---- */

active proctype clock() {
end:	do
	:: atomic {
#ifdef NO_CLOCK
		false ->
#endif
		state == INFLIGHT && !expired -> expired = true }
	od
}

active proctype operator() {
end:	do
	:: atomic {
#ifdef UNKNOWN_ONLY
		state == UNKNOWN ->
#else
		state == UNKNOWN || (state == INFLIGHT && expired) ->
#endif
		token++; highest = token; attempt = OPERATOR; grant++; maybe = false;
		if
		:: state = DONE; assert(answer == 0); answer = OPERATOR
		:: state = FREE; stepSent = false; stepDone = false; allowed++
		fi }
	od
}

inline forget() {
	forgets++;
#ifndef NO_FLOOR
	tokenFloor = (token > tokenFloor -> token : tokenFloor);
#endif
	state = ABSENT; token = 0; attempt = 0; resume = false; expired = false; stepSent = false; stepDone = false
}

active proctype sweep() {
end:	do
	:: atomic { state == DONE -> state = TOMBSTONE; stepSent = false; stepDone = false }
	:: atomic { state == FREE && forgets < FORGETS -> forget() }
	:: atomic { state == TOMBSTONE && forgets < FORGETS -> forget(); answer = 0; maybe = false; allowed++ }
#ifdef SWEEPS_CLAIMS
	:: atomic { state == INFLIGHT && expired && forgets < FORGETS -> forget() }
#endif
	od
}

init {
	byte i = 1;
	atomic {
		do
		:: i <= ARRIVALS -> run arrival(i); i++
		:: else -> break
		od
	}
}

/* No key is poisoned: once all have come, it is open for a new arrival, or decided, and stays so. */
ltl usable { <>[] (state == ABSENT || state == FREE || state == DONE || state == TOMBSTONE) }
