/** Cases of the messaging suite about the rings, lanes and store of the verbs engine. */
export const UCX_SKIPS = [
  {
    reason:
      'on UCX announcements are not counted, because they hold nothing of the message: what is beyond the window is announced',
    tests: ['bounds: announcements of large messages count as well'],
  },
  {
    reason: 'UCX has no rings, lanes and protocols of ours',
    tests: [
      'bounds: a new receive does not overtake one that waits longer, when both find their messages behind one that is held back',
      'tag: an eager-zcopy send takes no copy at the sender, and is complete when its memory is free again',
      'failing and closing: the rings of an endpoint that was closed by force are given back when the peer has let go',
      'failing and closing: a lane that fails in the middle hands its share to the others, and the transfer completes',
    ],
  },
];
