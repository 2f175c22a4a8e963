-- oldest: 1
-- How a sweep finds what is due. Neither column changes in the life of a claim, so a renewal or a completion
-- still touches no index (HOT): created is set once, and buried by a sweep alone. While they are built
-- claims wait; a million keys take about a second.
set local lock_timeout = '5s';

create index keys_created on {schema}.keys (created) where buried is null;
create index keys_buried on {schema}.keys (buried) where buried is not null;
